"""Programs that come from the distribution: looked up first, installed with apt where they are absent.

`python -m tests.cluster.debian` makes sure of what `make venv-engine` needs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import boot, installed
from tests.cluster.cache import ClusterError
from tests.cluster.needs import ENGINE, IMAGES, LOCAL_CLUSTER, PACKAGES, present

__all__ = ["ENGINE", "IMAGES", "LOCAL_CLUSTER", "PACKAGES", "require"]

_SERVICES_STAY_DOWN = Path("/usr/sbin/policy-rc.d")


def require(programs: Iterable[str]) -> None:
    """Make sure that `programs` (keys of PACKAGES) are there; installs what is not, and says so in one line.

    Raises ClusterError where that is not possible: no apt, or not root.
    """
    missing = sorted({PACKAGES[program] for program in programs if not present(program)})
    if not missing:
        return
    wanted = " ".join(missing)
    if not shutil.which("apt-get"):
        raise ClusterError(
            f"not installed: {wanted} (Debian's names), and there is no apt-get. Install them by hand."
        )
    if os.geteuid() != 0:
        raise ClusterError(
            f"not installed: {wanted}. Run `apt-get install {wanted}` as root, then this again."
        )
    print(f"installing Debian packages: {wanted}", flush=True)
    _apt("update", "-qq")
    with _quiet_services():
        _apt("install", "-qq", "-y", "--no-install-recommends", *missing)


@contextmanager
def _quiet_services() -> Iterator[None]:
    """What is installed meanwhile starts no service, enables none for boot, and is recorded as ours.

    etcd and containerd run only inside our node; also after a failure half way nothing stays enabled.
    """
    links, before = boot.enabled(), installed.there()
    with_policy = not _SERVICES_STAY_DOWN.exists()
    if with_policy:
        _SERVICES_STAY_DOWN.write_text("#!/bin/sh\nexit 101\n")
        _SERVICES_STAY_DOWN.chmod(0o755)
    try:
        yield
    finally:
        if with_policy:
            _SERVICES_STAY_DOWN.unlink()
        installed.add(set(installed.there()) - set(before))
        if kept_down := boot.undo(links):
            print(f"not started at boot: {', '.join(kept_down)}", flush=True)


def _apt(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", *arguments], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ClusterError(f"apt-get {' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    try:
        require(ENGINE)
    except ClusterError as error:
        sys.exit(f"error: {error}")
