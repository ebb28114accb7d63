"""A base image without a registry: Debian 12 with Python 3.11, made by debootstrap.

One of four modules (see `images`). Used where buildah is the only builder; it stands in for
python:3.11-slim-bookworm, so the Dockerfiles need nothing that this one has and that one has not.
"""

import shutil
import subprocess
from pathlib import Path

from tests.cluster import cache
from tests.cluster.cache import ClusterError
from tests.cluster.images_build import Builder

PACKAGES = "ca-certificates,python3,python3-venv"
REMOVED = (
    "etc/hostname", "etc/resolv.conf",  # debootstrap copies this machine's
    "var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/man", "usr/share/locale",
)  # fmt: skip
SEARCH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
NAME = f"localhost/slidingserve/base:{cache.digest(PACKAGES, *REMOVED, SEARCH)}"


def ensure(builder: Builder) -> None:
    """Make the base image in the builder's store unless it is there. Raises ClusterError; needs root."""
    known = subprocess.run(
        [*builder.command(), "images", "-q", NAME], env=builder.environment, capture_output=True, check=False
    )
    if known.returncode == 0 and known.stdout.strip():
        return
    archive = cache.make("images", "base", NAME.rpartition(":")[2], _bootstrap) / "rootfs.tar"
    container = builder.run("from", "scratch").split()[-1]
    try:
        builder.run("add", "-q", container, str(archive), "/")
        builder.run("config", f"--env=PATH={SEARCH}", container)
        builder.run("commit", "-q", container, NAME)
    finally:
        builder.run("rm", container)


def _bootstrap(work: Path) -> None:
    """Write rootfs.tar to `work`."""
    root = work / "rootfs"
    with cache.step("base image: debootstrap of Debian 12, a minute or two"):
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ClusterError(f"debootstrap failed:\n{(done.stdout + done.stderr)[-2000:]}")
        for name in REMOVED:
            path = root / name
            if path.is_dir():
                shutil.rmtree(path)
                path.mkdir()
            else:
                path.unlink(missing_ok=True)
        subprocess.run(["tar", "-C", str(root), "-cf", str(work / "rootfs.tar"), "."], check=True)
        shutil.rmtree(root)
