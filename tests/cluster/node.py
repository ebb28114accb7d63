"""A machine made of Linux namespaces: the local cluster's node.

One `unshare` gives it its own processes, mounts, network, host name and IPC; in it `/var/lib` and `/var/log`
are directories of ours and `/run` is a tmpfs. So whatever runs there (etcd, containerd, the kubelet, pods)
cannot leave anything on the host: when its first process is killed the kernel ends every other process in
it, and with them go the mounts, the network namespaces, the veth pair with its routes, and all iptables
rules, IPv4 and IPv6. Only the cgroups below /sys/fs/cgroup/*/slidingserve and the files below the state
directory remain to be removed.

Nothing is killed but a recorded process whose start time still matches (a pid is used again after a reboot).
"""

import json
import shutil
import socket
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

from tests.cluster import cgroups, config
from tests.cluster.cache import ClusterError
from tests.cluster.processes import Process, child

CGROUPS = Path("/sys/fs/cgroup")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Kernel settings that the kubelet insists on: it finds them in files of ours, and the host keeps its own.
TUNABLES = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}

# $1 is the directory that becomes /var/lib. The old /proc still shows this process by the host's number.
_BOOT = """\
set -eu
read -r pid rest </proc/self/stat
echo "$pid"
hostname "$2"
mount --make-rshared /
mount --bind "$1" /var/lib
mount --bind /var/lib/log /var/log
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock
mount -t proc proc /proc
for file in $(cd /var/lib/sys && find . -type f); do mount --bind "/var/lib/sys/$file" "/proc/sys/$file"; done
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
echo ready
exec /var/lib/kubernetes/bin/pause </dev/null >/dev/null 2>&1
"""


class Node:
    """The node below one state directory: its /var/lib, and a record of every process started for it."""

    def __init__(self, state: Path, place: config.Place) -> None:
        self.place = place
        self.components = config.components(place)
        self.lib = state / "lib"
        self._records = state / "processes"
        self._booted = self._records / "booted"

    def process(self, name: str) -> Process | None:
        """The recorded process of that name, if it is alive."""
        try:
            found = Process(**json.loads((self._records / name).read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return found if found.alive() else None

    def booted(self) -> bool:
        """Whether it is there as a whole: an interrupted `boot` does not count."""
        return self._booted.exists() and self.process("init") is not None

    def boot(self) -> None:
        """Make the namespaces, the link to the host and the cgroups; the process is on record before them."""
        for directory in (self._records, self.lib / "log", self.lib / "sys"):
            directory.mkdir(parents=True, exist_ok=True)
        for name, value in TUNABLES.items():
            file = self.lib / "sys" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value)
        unshare = ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
        boot = ["sh", "-c", _BOOT, "sh", str(self.lib), config.NODE]
        with (self.lib / "log" / "node").open("w") as errors:
            outer = subprocess.Popen(
                [*unshare, *boot], stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True,
                env={"PATH": _PATH}, start_new_session=True,
            )  # fmt: skip
        self._record("unshare", outer.pid)
        assert outer.stdout is not None
        pid = outer.stdout.readline().strip()
        if pid:
            self._record("init", int(pid))
        if outer.stdout.readline().strip() != "ready":
            raise ClusterError(
                "the node's namespaces could not be made: " + (self.lib / "log" / "node").read_text()
            )
        outer.stdout.close()
        outer.returncode = 0
        self._connect(int(pid))
        cgroups.create(self.place.name)
        self._booted.touch()

    def start(self, name: str) -> None:
        """Start a program in the node unless it runs already; its output goes to /var/log/<name> there."""
        component = self.components[name]
        if self.process(name):
            return
        with (self.lib / "log" / name).open("w") as log:
            started = subprocess.Popen(
                self.command(*component.command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": _PATH, "HOME": "/root"}, start_new_session=True,
            )  # fmt: skip
        self._record(name, child(started))
        started.returncode = 0  # it outlives this process; its record is what counts

    def command(self, *command: str) -> list[str]:
        """The command line that runs `command` in the node."""
        init = self.process("init")
        if init is None:
            raise ClusterError("the local cluster is not up: python -m tests.cluster up")
        return ["nsenter", "-t", str(init.pid), "-m", "-n", "-p", "-u", "-i", "--", *command]

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command in the node to its end and return what it printed; ClusterError if it fails."""
        done = subprocess.run(
            self.command(*command), capture_output=True, text=True, check=False, env={"PATH": _PATH}
        )
        if check and done.returncode:
            raise ClusterError(f"{' '.join(command)} failed in the node: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def log_tail(self, name: str, characters: int = 1500) -> str:
        """The end of a component's log."""
        log = self.lib / "log" / name
        return log.read_text(errors="replace")[-characters:] if log.exists() else "(no log)"

    def halt(self) -> None:
        """End the node and everything in it, and wait for its link to go; harmless where nothing is left."""
        if not self._records.exists():
            return
        for name in ("init", "unshare"):
            if process := self.process(name):
                process.kill()
        shutil.rmtree(self._records)
        deadline = time.monotonic() + 5  # the kernel takes a network namespace down in the background
        while self.linked() and time.monotonic() < deadline:
            time.sleep(0.02)

    def linked(self) -> bool:
        """Whether the host has a link of this place's name: ours, or another cluster's in the same place."""
        return self.place.link in (name for _, name in socket.if_nameindex())

    def _record(self, name: str, pid: int) -> None:
        self._records.mkdir(parents=True, exist_ok=True)
        (self._records / name).write_text(json.dumps(asdict(Process.of(pid))))

    def _connect(self, pid: int) -> None:
        """A veth pair to the host, and its routes to the cluster; both end with the namespace."""
        link, gateway = self.place.link, self.place.node_address
        _ip(f"link add {link} type veth peer name eth0 netns {pid}")
        _ip(f"address add {self.place.host_address}/30 dev {link}")
        _ip(f"link set {link} up")
        self.run("ip", "address", "add", f"{gateway}/30", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        for network in (self.place.pods, self.place.services):
            _ip(f"route add {network} via {gateway} dev {link}")


def _ip(arguments: str) -> None:
    done = subprocess.run(["ip", *arguments.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"ip {arguments} failed: {done.stderr.strip()}")
