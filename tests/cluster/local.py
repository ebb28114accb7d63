"""The local kind: Kubernetes without a container engine, on this machine, in a node of its own (root needed).

`up` is a row of steps, each of which looks first whether it is done, so that a second `up` changes nothing and an
interrupted one goes on. `down` ends the node and removes its files; containerd's images are kept for the next `up`.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster import cache, config, debian, foreign, oci, pki, tools
from tests.cluster.api import GPU, Cluster
from tests.cluster.cache import ClusterError
from tests.cluster.node import Node

HERE = Path(__file__).parent
CTR = ("ctr", "--address", config.CONTAINERD, "--namespace", "k8s.io")


class LocalCluster(Cluster):
    """One node of real Kubernetes below `<cache>/cluster`."""

    kind = "local"

    def __init__(self, state: Path | None = None) -> None:
        self.state = state or cache.root() / "cluster"
        self.node = Node(self.state)
        self.kubeconfig = self.state / "kubeconfig"

    def up(self) -> None:
        """Bring the node, its control plane and DNS up; see the module's docstring."""
        if os.geteuid() != 0:
            raise ClusterError(
                "CLUSTER=local needs root: it makes namespaces, mounts and cgroups. Try sudo, or kind."
            )
        debian.require(debian.LOCAL_CLUSTER)
        binaries = tools.path("kc").parent
        images = [_pause_image(), _coredns_image()]
        with self._lock():
            begin = time.monotonic()
            if self.node.process("init") is None:
                foreign.refuse(self.state)
                self._clean()
                self._prepare(binaries)
                self.node.boot()
            for component in (config.ETCD, config.API_SERVER, config.CONTAINERD_DAEMON):
                self.node.start(component)
            self._wait("containerd", lambda: bool(self._ctr("version", check=False)))
            self._drop_stale_containers()
            for layout, name in images:
                self._load(layout, name)
            self._wait("kube-apiserver", self._api_ready)
            _say(begin, "API server ready")
            for component in (config.CONTROLLER_MANAGER, config.SCHEDULER, config.PROXY, config.KUBELET):
                self.node.start(component)
            self.kubectl("apply", "-f", str(HERE / "manifests" / "base.yaml"))
            self._wait("kubelet", self._node_ready)
            _say(begin, "node ready")
            self._wait("coredns", self._dns_ready)
            _say(begin, f"up; export KUBECONFIG={self.kubeconfig}")

    def down(self, *, drop_images: bool = False) -> None:
        """End every process of the node and remove what it leaves; images stay unless they are to be dropped."""
        with self._lock():
            begin = time.monotonic()
            if self.node.process("containerd"):
                for name in ("kubelet", "kube-controller-manager"):  # so that nothing is started again
                    if process := self.node.process(name):
                        process.kill()
                self._remove_containers()
            self.node.halt()
            self._clean()
            if drop_images:
                shutil.rmtree(self.node.lib / "containerd", ignore_errors=True)
            self.kubeconfig.unlink(missing_ok=True)
            _say(begin, "down")

    def is_up(self) -> bool:
        """Whether the API server answers."""
        return (
            self.node.process("kube-apiserver") is not None and self.kubeconfig.exists() and self._api_ready()
        )

    def status(self) -> dict[str, str]:
        """Each component and whether it runs."""
        parts = (config.ETCD, config.API_SERVER, config.CONTAINERD_DAEMON, config.CONTROLLER_MANAGER,
                 config.SCHEDULER, config.PROXY, config.KUBELET)  # fmt: skip
        names = ["init", *(part.name for part in parts)]
        return {name: f"pid {found.pid}" if (found := self.node.process(name)) else "down" for name in names}

    def audit_log(self) -> Path | None:
        """The API server's audit log on the host's file system."""
        return self.node.lib / "log" / "audit.log"

    def load_image(self, layout: Path, name: str) -> None:
        """Import an OCI layout into containerd as `name`, sending only the layers that it does not hold."""
        with self._lock():
            self._load(layout, name)

    def _lock(self) -> "cache.contextlib.AbstractContextManager[None]":
        return cache.lock(
            self.state / "lock", "the local cluster is being changed by another process; waiting"
        )

    def _prepare(self, binaries: Path) -> None:
        """Everything that is on disk before the node boots: binaries, certificates, configuration."""
        etc = self.node.lib / "kubernetes"
        shutil.rmtree(etc / "bin", ignore_errors=True)
        (etc / "bin").mkdir(parents=True)
        _place(binaries / "kc", etc / "bin" / "kc")
        for name in tools.APPLETS:
            (etc / "bin" / name).symlink_to("kc")
        _place(tools.path("pause"), etc / "bin" / "pause")
        pki.create(etc / "pki", config.SERVER_NAMES, config.IDENTITIES)
        config.write(etc, HERE / "manifests" / "audit-policy.yaml")
        for name in ("etcd", "kubelet", "cni", "containerd"):
            (self.node.lib / name).mkdir(exist_ok=True, mode=0o700)
        server = f"https://{config.NODE_ADDRESS}:{config.API_PORT}"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(pki.kubeconfig(etc / "pki", pki.ADMIN, server, config.CONTEXT))

    def _clean(self) -> None:
        """Remove what a node that is down has left, all but images, certificates and the last logs."""
        for name in ("etcd", "kubelet", "cni"):
            shutil.rmtree(self.node.lib / name, ignore_errors=True)
        for log in (self.node.lib / "log").glob("audit*.log"):
            log.unlink()

    def _wait(self, component: str, ready: Callable[[], bool], seconds: float = 90) -> None:
        """Poll until `ready`; if it does not come, say so with the end of the component's log."""
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{component} not ready after {seconds:.0f} s:\n{self.node.log_tail(component)}"
                )
            time.sleep(0.15)

    def _api_ready(self) -> bool:
        return self.kubectl_result("get", "--raw", "/readyz").returncode == 0

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
        """CoreDNS answers on its Service's address from the host: pods run and kube-proxy has its rules."""
        try:
            socket.create_connection((config.DNS_SERVICE, 53), timeout=1).close()
        except OSError:
            return False
        available = "jsonpath={.status.availableReplicas}"
        return self.kubectl("-n", "kube-system", "get", "deployment", "coredns", "-o", available) == "1"

    def _ctr(self, *arguments: str, check: bool = True) -> str:
        return self.node.run(*CTR, *arguments, check=check)

    def _drop_stale_containers(self) -> None:
        """Containers that an earlier node left in containerd's database (it was killed, or the machine restarted)."""
        if self.node.process("kubelet") is None and self._ctr("containers", "ls", "-q").split():
            self._remove_containers()
            if process := self.node.process("containerd"):
                process.kill()
            self.node.start(config.CONTAINERD_DAEMON)
            self._wait("containerd", lambda: bool(self._ctr("version", check=False)))

    def _remove_containers(self) -> None:
        if tasks := self._ctr("tasks", "ls", "-q", check=False).split():
            for task in tasks:
                self._ctr("tasks", "kill", "--signal", "SIGKILL", task, check=False)
            self._ctr("tasks", "rm", "--force", *tasks, check=False)
        if containers := self._ctr("containers", "ls", "-q", check=False).split():
            self._ctr("containers", "rm", *containers, check=False)

    def _images(self) -> dict[str, tuple[str, bool]]:
        """Name -> (digest, whether the kubelet's side of containerd has seen it)."""
        rows = [line.split() for line in self._ctr("images", "ls").splitlines()[1:]]
        return {row[0]: (row[2], "io.cri-containerd.image=managed" in row[-1]) for row in rows}

    def _load(self, layout: Path, name: str) -> None:
        wanted, before = oci.manifest_digest(layout), self._images()
        if before.get(name) == (wanted, True):
            return
        begin = time.monotonic()
        held = set(self._ctr("content", "ls", "-q").split())
        sent = self._import(layout, name, held)
        self._wait("containerd", lambda: self._images().get(name) == (wanted, True))
        if name in before and before[name][0] != wanted:
            self._forget(before[name][0])
        print(f"image {name}: {sent / 1e6:.0f} MB sent in {time.monotonic() - begin:.1f} s", flush=True)

    def _import(self, layout: Path, name: str, held: set[str]) -> int:
        command = self.node.command(*CTR, "images", "import", "-")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as ctr:
            assert ctr.stdin is not None and ctr.stdout is not None
            try:
                sent = oci.thin_tar(layout, name, held, ctr.stdin)
                ctr.stdin.close()
            except BrokenPipeError:
                sent = 0
            output = ctr.stdout.read().decode(errors="replace")
        if ctr.returncode == 0:
            return sent
        if held:  # a layer went away between the look and the import: send everything
            return self._import(layout, name, set())
        raise ClusterError(f"import of {name} from {layout} failed: {output[-1500:]}")

    def _forget(self, digest: str) -> None:
        """Drop the names that still hold a replaced image: without this its layers are never freed."""
        same = [name for name, (target, _) in self._images().items() if target == digest]
        if all(name.startswith("sha256:") or "@" in name for name in same) and same:
            self._ctr("images", "rm", "--sync", *same, check=False)


def _pause_image() -> tuple[Path, str]:
    return binary_image(
        "pause", config.PAUSE_IMAGE, {"Entrypoint": ["/pause"], "User": "65535:65535"}
    ), config.PAUSE_IMAGE


def _coredns_image() -> tuple[Path, str]:
    return binary_image("coredns", config.COREDNS_IMAGE, {"Entrypoint": ["/coredns"]}), config.COREDNS_IMAGE


def binary_image(tool: str, name: str, image: dict[str, object]) -> Path:
    """The OCI layout of an image that holds one of our static binaries and nothing else, kept in the cache."""
    binary = tools.path(tool)
    key = cache.digest(binary.parent.name, name, repr(image))
    return cache.make(
        "images", tool, key, lambda work: _discard(oci.write_image(work, name, {f"/{tool}": binary}, image))
    )


def _discard(_: object) -> None:
    return None


def _place(source: Path, target: Path) -> None:
    """A hard link where the file system allows it, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _say(begin: float, what: str) -> None:
    print(f"[{time.monotonic() - begin:5.1f} s] {what}", flush=True)
