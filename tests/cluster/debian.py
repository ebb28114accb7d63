"""Programs that come from the distribution: looked up first, installed with apt where they are absent.

`python -m tests.cluster.debian` makes sure of what `make venv-engine` needs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.cache import ClusterError

PACKAGES = {
    "buildah": "buildah",
    "containerd": "containerd",
    "debootstrap": "debootstrap",
    "etcd": "etcd-server",
    "hostname": "hostname",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "unshare": "util-linux",
    "ld": "binutils",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "/usr/lib/x86_64-linux-gnu/libnuma.so.1": "libnuma1",
}
"""Program (a name on PATH, or an absolute path) -> Debian package."""

IMAGES = ("buildah", "debootstrap")
ENGINE = ("ld", "/usr/lib/x86_64-linux-gnu/libnuma.so.1")
"""What vLLM's CPU build needs of this machine, and the linker for the libraries it does without."""
LOCAL_CLUSTER = tuple(program for program in PACKAGES if program not in (*IMAGES, *ENGINE))
_SERVICES_STAY_DOWN = Path("/usr/sbin/policy-rc.d")


def require(programs: Iterable[str]) -> None:
    """Make sure that `programs` (keys of PACKAGES) are there; installs what is not, and says so in one line.

    Raises ClusterError where that is not possible: no apt, or not root.
    """
    missing = sorted({PACKAGES[program] for program in programs if not _present(program)})
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
    with_policy = not _SERVICES_STAY_DOWN.exists()
    if with_policy:  # etcd and containerd run only inside our node: their packages must start no service
        _SERVICES_STAY_DOWN.write_text("#!/bin/sh\nexit 101\n")
        _SERVICES_STAY_DOWN.chmod(0o755)
    try:
        _apt("install", "-qq", "-y", "--no-install-recommends", *missing)
    finally:
        if with_policy:
            _SERVICES_STAY_DOWN.unlink()


def _present(program: str) -> bool:
    if program.startswith("/"):
        return Path(program).exists()
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which(program, path=path) is not None


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
