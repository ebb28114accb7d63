"""The local kind: Kubernetes without a container engine, on this machine, in a node of its own (root needed).

`up` is a row of steps, each of which looks first whether it is done, so that a second `up` changes nothing
and an interrupted one goes on. `down` ends the node and removes its files, all but containerd's images.
"""

import os
import shutil
import socket
import struct
import time
from contextlib import AbstractContextManager
from pathlib import Path

from tests.cluster import cache, cgroups, config, debian, foreign, pki, tools
from tests.cluster.api import GPU, Cluster
from tests.cluster.cache import ClusterError, Condition
from tests.cluster.config import Place
from tests.cluster.node import Node
from tests.cluster.runtime import Containerd, base_images


class LocalCluster(Cluster):
    """One node of real Kubernetes below `<cache>/cluster`."""

    kind = "local"

    def __init__(self, state: Path | None = None, place: Place | None = None) -> None:
        self.state = state or cache.root() / "cluster"
        self.place = place or Place()
        self.node = Node(self.state, self.place)
        self.containerd = Containerd(self.node)
        self.kubeconfig = self.state / "kubeconfig"

    @classmethod
    def numbered(cls, number: int) -> "LocalCluster":
        """One of several on this machine, each with a directory and addresses of its own."""
        directory = f"cluster-{number}" if number else "cluster"
        return cls(cache.root() / directory, config.numbered(number))

    def up(self, *, dns: bool = True) -> None:
        """Bring the node, its control plane and DNS up; see the module's docstring."""
        _need_root()
        dns = dns or tools.at_hand("coredns") is not None
        debian.require(debian.LOCAL_CLUSTER)
        tools.path("kc")
        images = base_images(dns=dns)
        with self._lock():
            begin = time.monotonic()
            if not self.node.booted():
                self._boot()
            self.node.start("etcd")
            self.node.start("kube-apiserver")
            self.containerd.start()
            for layout, name in images:
                self.containerd.load(layout, name)
            self._wait("kube-apiserver", self.is_up)
            _say(begin, "API server ready")
            for component in self.node.components:
                self.node.start(component)
            self.kubectl("apply", "-f", "-", stdin=config.base_objects(self.place, dns=dns))
            self._wait("kubelet", self._node_ready)
            _say(begin, "node ready")
            if dns:
                self._wait("kube-proxy", self._dns_ready)
            _say(begin, f"up; export KUBECONFIG={self.kubeconfig}")

    def down(self, *, drop_images: bool = False) -> None:
        """End every process of the node and remove what it leaves; images stay unless told otherwise."""
        if not self.state.exists():
            return
        _need_root()
        with self._lock():
            begin = time.monotonic()
            if self.node.process("containerd"):
                for name in ("kubelet", "kube-controller-manager"):  # so that nothing is started again
                    if process := self.node.process(name):
                        process.kill()
                self.containerd.remove_containers()
            self.node.halt()
            if not self.node.linked():  # else another cluster has taken the place since
                cgroups.remove(self.place.name)
            self._clean()
            if drop_images:
                shutil.rmtree(self.node.lib / "containerd", ignore_errors=True)
            self.kubeconfig.unlink(missing_ok=True)
            _say(begin, "down")

    def exists(self) -> bool:
        """Whether its node is there."""
        return self.node.process("init") is not None

    def environment(self) -> dict[str, str]:
        """As in every kind; and no proxy of the host's comes between."""
        base = super().environment()
        direct = ",".join(filter(None, [base.get("NO_PROXY"), *self.place.networks]))
        return {**base, "NO_PROXY": direct, "no_proxy": direct}

    def status(self) -> dict[str, str]:
        """Each component and whether it runs."""
        names = ["init", *self.node.components]
        return {name: f"pid {found.pid}" if (found := self.node.process(name)) else "down" for name in names}

    def audit_log(self) -> Path | None:
        """The API server's audit log on the host's file system."""
        return self.node.lib / "log" / "audit.log"

    def load_image(self, layout: Path, name: str) -> None:
        """Import an OCI layout into containerd as `name`, sending only the layers that it does not hold."""
        with self._lock():
            self.containerd.load(layout, name)

    def _lock(self) -> AbstractContextManager[None]:
        return cache.lock(self.state / "lock", "another process is changing the local cluster; waiting")

    def _boot(self) -> None:
        """From nothing, or from what a killed node left, to an empty node."""
        self.node.halt()
        foreign.refuse(self.place)
        cgroups.remove(self.place.name)
        self._clean()
        self._prepare()
        self.node.boot()

    def _prepare(self) -> None:
        """Everything that is on disk before the node boots: binaries, certificates, configuration."""
        etc = self.node.lib / "kubernetes"
        shutil.rmtree(etc / "bin", ignore_errors=True)
        (etc / "bin").mkdir(parents=True)
        for name in ("kc", "pause"):
            _place(tools.path(name), etc / "bin" / name)
        for name in tools.APPLETS:
            (etc / "bin" / name).symlink_to("kc")
        config.write(etc, self.place)
        for name in ("etcd", "kubelet", "cni", "containerd"):
            (self.node.lib / name).mkdir(exist_ok=True, mode=0o700)
        server = f"https://{self.place.node_address}:{config.API_PORT}"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(pki.kubeconfig(etc / "pki", pki.ADMIN, server, config.CONTEXT))

    def _clean(self) -> None:
        """Remove what a node that is down has left, all but images, certificates and the components' logs."""
        for name in ("etcd", "kubelet", "cni", "log/pods", "log/containers"):
            shutil.rmtree(self.node.lib / name, ignore_errors=True)
        for log in (self.node.lib / "log").glob("audit*.log"):
            log.unlink()

    def _wait(self, component: str, ready: Condition) -> None:
        cache.wait_for(component, ready, seconds=180, details=lambda: self.node.log_tail(component))

    def _node_ready(self) -> bool:
        """The node is Ready with its fake GPUs, and pods can be made (the default service account exists)."""
        found = self.kubectl_result("get", "node", config.NODE, "-o", "json")
        if found.returncode:
            return False
        if f'"{GPU}": "{config.FAKE_GPUS}"' not in found.stdout:
            self.fake_gpus(config.FAKE_GPUS)
            return False
        ready = '"message": "kubelet is posting ready status"' in found.stdout
        return ready and self.kubectl_result("get", "serviceaccount", "default").returncode == 0

    def _dns_ready(self) -> bool:
        """CoreDNS answers on its Service's address: pods run, and kube-proxy has its rules."""
        if not _resolves(self.place.dns, "kubernetes.default.svc.cluster.local"):
            return False
        available = "jsonpath={.status.availableReplicas}"
        return self.kubectl("-n", "kube-system", "get", "deployment", "coredns", "-o", available) == "1"


def _resolves(server: str, name: str) -> bool:
    """Whether a DNS server has an address for the name (RFC 1035; bytes 6-7 count the answers)."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        try:
            client.sendto(
                struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + labels + b"\0" + b"\0\1\0\1", (server, 53)
            )
            return client.recv(512)[6:8] > b"\0\0"
        except OSError:
            return False


def _need_root() -> None:
    if os.geteuid() != 0:
        raise ClusterError(
            "CLUSTER=local needs root: it makes namespaces and mounts. Use sudo, or CLUSTER=kind."
        )


def _place(source: Path, target: Path) -> None:
    """A hard link where the file system allows it, else a copy."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _say(begin: float, what: str) -> None:
    print(f"[{time.monotonic() - begin:5.1f} s] {what}", flush=True)
