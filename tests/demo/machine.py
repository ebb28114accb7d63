"""What this machine is and has, found out without installing anything: the effects of `make doctor`.

Python 3.8 can read it, and it imports only what comes with Python (see `tests.cluster.needs`).
"""

from __future__ import annotations

import ipaddress
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import needs


@dataclass(frozen=True)
class Facts:
    """A machine as `doctor.examine` sees it; a test gives its own. Sizes in bytes."""

    system: str = "Linux"
    processor: str = "x86_64"
    python: tuple[int, int] = (3, 11)
    venv: bool = True
    cluster: str = ""
    number: int = 0
    docker: bool = False
    kind: bool = False
    context: str = ""
    root: bool = True
    namespaces: str = ""
    go: tuple[int, int] | None = (1, 26)
    go_may_fetch: bool = True
    cache: str = "/var/cache/slidingserve"
    cache_free: float = 100e9
    checkout_free: float = 100e9
    one_disk: bool = True
    memory: float = 24e9
    cores: int = 2
    load: float = 0.0
    routes: tuple[tuple[str, str], ...] = ()
    up: bool = False
    kubelet: int = 0
    apt: bool = True
    missing: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()


def look(environ: dict[str, str] | None = None) -> Facts:
    """The facts of this machine."""
    env = dict(os.environ if environ is None else environ)
    number = env.get("CLUSTER_NUMBER", "0")
    digit = int(number) if number.isdigit() else 0
    docker = _succeeds("docker", "version", "--format", "{{.Server.Version}}")
    builder = docker or _succeeds("podman", "info")
    wanted = (*needs.LOCAL_CLUSTER, *needs.ENGINE, *(() if builder else needs.IMAGES))
    root, checkout = needs.cache_root(), Path(__file__).resolve().parents[2]
    free, device = disk(root)
    checkout_free, checkout_device = disk(checkout)
    return Facts(
        system=platform.system(),
        processor=platform.machine(),
        python=(sys.version_info[0], sys.version_info[1]),
        venv=_has_venv(),
        cluster=env.get("CLUSTER", ""),
        number=digit,
        docker=docker,
        kind=shutil.which("kind") is not None,
        context=env.get("SLIDINGSERVE_CONTEXT", ""),
        root=os.geteuid() == 0,
        namespaces=_namespaces(),
        go=_go(),
        go_may_fetch=_first_line("go", "env", "GOTOOLCHAIN") not in ("local", "path"),
        cache=str(root),
        cache_free=free,
        checkout_free=checkout_free,
        one_disk=device == checkout_device,
        memory=memory(Path("/proc/meminfo").read_text(), _cgroup_limit()),
        cores=len(os.sched_getaffinity(0)),
        load=os.getloadavg()[0],
        routes=tuple(routes(Path("/proc/net/route").read_text())),
        up=Path("/sys/class/net", needs.link(digit)).exists(),
        kubelet=_kubelet(),
        apt=shutil.which("apt-get") is not None,
        missing=tuple(needs.missing_packages(wanted)),
        cached=tuple(cached(root)),
    )


def disk(path: Path) -> tuple[float, int]:
    """Free bytes and device of the file system where a path is, or will be."""
    while not path.exists():
        path = path.parent
    return float(shutil.disk_usage(str(path)).free), path.stat().st_dev


def memory(meminfo: str, limit: float) -> float:
    """Bytes that programs may have now: what is available here, and no more than a container's limit."""
    found = re.search(r"MemAvailable:\s+(\d+)", meminfo)
    return min(float(found.group(1)) * 1024 if found else limit, limit)


def routes(table: str) -> list[tuple[str, str]]:
    """(network, interface) of each IPv4 route in the text of /proc/net/route, the default left out."""
    found = []
    for line in table.splitlines()[1:]:
        part = line.split()
        if len(part) > 7 and int(part[7], 16):
            address, mask = (bytes.fromhex(part[index])[::-1] for index in (1, 7))
            bits = bin(int.from_bytes(mask, "big")).count("1")
            network = ipaddress.ip_network(f"{ipaddress.IPv4Address(address)}/{bits}", strict=False)
            found.append((str(network), part[0]))
    return found


def cached(root: Path) -> list[str]:
    """Which of the demo's parts the cache holds (an older version of one counts)."""
    tools = ("kc", "helm", "coredns", "prometheus")
    images = ("operator", "engine-cpu", "base")
    return [name for name in tools if any(root.glob("tools/" + name + "-*/" + name))] + [
        name for name in images if any(root.glob("images/" + name + "-" + "[0-9a-f]" * 12))
    ]


def _succeeds(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    try:
        return subprocess.run(list(command), capture_output=True, timeout=20, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _first_line(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(list(command), capture_output=True, text=True, check=False).stdout.strip()


def _go() -> tuple[int, int] | None:
    numbers = re.match(r"go(\d+)\.(\d+)", _first_line("go", "env", "GOVERSION"))
    return (int(numbers.group(1)), int(numbers.group(2))) if numbers else None


def _has_venv() -> bool:
    try:
        import ensurepip
        import venv
    except ImportError:
        return False
    return bool(ensurepip.version() and venv.EnvBuilder)


def _namespaces() -> str:
    """Why this machine does not let us make namespaces; "" where it does, and where nobody can say yet."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return ""
    command = ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() or ("unshare failed" if done.returncode else "")


def _kubelet() -> int:
    """A kubelet's process that shares our network, or 0."""
    own = Path("/proc/self/ns/net").stat().st_ino
    for process in Path("/proc").glob("[0-9]*"):
        try:
            kubelet = (process / "comm").read_text().strip() == "kubelet"
            if kubelet and (process / "ns" / "net").stat().st_ino == own:
                return int(process.name)
        except OSError:
            continue
    return 0


def _cgroup_limit() -> float:
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            return float(Path("/sys/fs/cgroup", name).read_text())
        except (OSError, ValueError):
            continue
    return float("inf")
