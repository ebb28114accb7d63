"""The one interface that tests and the demo use, whatever cluster is behind it, and the choice of kind."""

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from tests.cluster import tools
from tests.cluster.cache import ClusterError

GPU = "nvidia.com/gpu"
KINDS = ("local", "kind", "current")
NUMBERS = tuple("0123456789")


class Cluster(ABC):
    """A Kubernetes cluster: one context, images loaded by hand, fake GPUs on nodes that are ours."""

    kind: str
    kubeconfig: Path
    """Always one file with this cluster as its current context; children get it as KUBECONFIG."""

    @abstractmethod
    def up(self, *, dns: bool = True) -> None:
        """Bring it up, with DNS, RBAC, fake GPUs; a no-op where it is up. ClusterError says why it cannot.

        dns=False: names of Services need not resolve, so no DNS server is built for it where none is there.
        """

    @abstractmethod
    def down(self, *, drop_images: bool = False) -> None:
        """Leave nothing behind; a no-op where it is down. Loaded images may be kept for the next `up`."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is something for `down` to take away, be it healthy or not."""

    def is_up(self) -> bool:
        """Whether it is there and its API server answers."""
        return self.exists() and self.kubectl_result("get", "--raw", "/readyz").returncode == 0

    @abstractmethod
    def load_image(self, layout: Path, name: str) -> None:
        """Make the image of an OCI layout (a directory) known to the nodes as `name` (`localhost/x:tag`)."""

    def audit_log(self) -> Path | None:
        """The API server's audit log, if readable: JSON lines, written before a request is answered."""
        return None

    def environment(self) -> dict[str, str]:
        """The environment in which kubectl, helm and Kubernetes clients talk to this cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def kubectl_program(self) -> Path:
        """The kubectl that talks to it: the one built with our Kubernetes."""
        return tools.path("kubectl")

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 120
    ) -> str:
        """Run kubectl, return what it printed; with `check`, ClusterError with its words if it fails."""
        done = self.kubectl_result(*arguments, stdin=stdin, timeout=timeout)
        if check and done.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def kubectl_result(
        self, *arguments: str, stdin: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl to its end: return code, stdout and stderr."""
        command = [str(self.kubectl_program()), *arguments]
        return subprocess.run(
            command,
            input=stdin,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return self.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()

    def fake_gpus(self, count: int = 8) -> None:
        """Give every node `count` GPUs that the scheduler counts and nothing drives."""
        patch = f'{{"status": {{"capacity": {{"{GPU}": "{count}"}}, "allocatable": {{"{GPU}": "{count}"}}}}}}'
        for node in self.nodes():
            self.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)


def docker_answers() -> bool:
    """Whether a Docker engine can be used from here."""
    if not shutil.which("docker"):
        return False
    probe = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode == 0


def chosen_kind(environ: Mapping[str, str] = os.environ) -> str:
    """The kind that CLUSTER names; unset: kind where it and a Docker engine are there, else local."""
    kind = environ.get("CLUSTER") or ("kind" if shutil.which("kind") and docker_answers() else "local")
    if kind not in KINDS:
        raise ClusterError(f"CLUSTER={kind!r} is not a kind of cluster; use {', '.join(KINDS)}")
    return kind


def chosen_number(environ: Mapping[str, str] = os.environ) -> int:
    """Which of the local clusters CLUSTER_NUMBER names; unset: 0."""
    number = environ.get("CLUSTER_NUMBER") or "0"
    if number not in NUMBERS:
        raise ClusterError(f"CLUSTER_NUMBER={number!r} is no local cluster; use 0 to {NUMBERS[-1]}")
    return int(number)


def get(environ: Mapping[str, str] = os.environ) -> Cluster:
    """The cluster of the chosen kind; it is neither brought up nor asked anything."""
    from tests.cluster.current import CurrentContext
    from tests.cluster.kind import Kind
    from tests.cluster.local import LocalCluster

    match chosen_kind(environ):
        case "local":
            return LocalCluster.numbered(chosen_number(environ))
        case "kind":
            return Kind()
        case _:
            return CurrentContext(environ)
