"""The kind kind: Kubernetes in Docker by `kind`, behind the same interface."""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.cluster import cache, tools
from tests.cluster.api import Cluster, docker_answers
from tests.cluster.cache import ClusterError

NAME = "slidingserve"


class Kind(Cluster):
    """A kind cluster called `slidingserve` of the tested Kubernetes version."""

    kind = "kind"

    def __init__(self) -> None:
        self.kubeconfig = cache.root() / "kind" / "kubeconfig"

    def up(self, *, dns: bool = True) -> None:
        """`kind create cluster` unless it is there, then the fake GPUs."""
        if not docker_answers():
            raise ClusterError(
                "CLUSTER=kind needs a Docker engine that answers. Start Docker, or use CLUSTER=local."
            )
        if not shutil.which("kind"):
            raise ClusterError("CLUSTER=kind needs kind: go install sigs.k8s.io/kind@latest")
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        if NAME not in _kind("get", "clusters").split():
            with cache.step("kind create cluster"):
                image = f"kindest/node:{tools.KUBERNETES}"
                _kind("create", "cluster", "--name", NAME, "--image", image, "--wait", "120s",
                      "--kubeconfig", str(self.kubeconfig))  # fmt: skip
        elif not self.kubeconfig.exists():
            _kind("export", "kubeconfig", "--name", NAME, "--kubeconfig", str(self.kubeconfig))
        self.fake_gpus()

    def down(self, *, drop_images: bool = False) -> None:
        """`kind delete cluster`: its images go with its node."""
        if shutil.which("kind") and docker_answers():
            _kind("delete", "cluster", "--name", NAME, "--kubeconfig", str(self.kubeconfig))
        self.kubeconfig.unlink(missing_ok=True)

    def kubectl_program(self) -> Path:
        """This machine's own if it fits, so that no Kubernetes is built for one command."""
        return tools.own("kubectl") or tools.path("kubectl")

    def exists(self) -> bool:
        """Whether kind knows it."""
        return bool(shutil.which("kind")) and docker_answers() and NAME in _kind("get", "clusters").split()

    def load_image(self, layout: Path, name: str) -> None:
        """`kind load image-archive` of the layout, packed into an archive for it."""
        with tempfile.TemporaryDirectory() as work:
            archive = Path(work) / "image.tar"
            with tarfile.open(archive, "w") as packed:
                packed.add(layout, arcname=".")
            _kind("load", "image-archive", str(archive), "--name", NAME)


def _kind(*arguments: str) -> str:
    done = subprocess.run(["kind", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"kind {' '.join(arguments)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
