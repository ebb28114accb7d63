"""The user's own cluster: the context that kubectl uses now, and only after its owner has said so."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cluster import cache, tools
from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError


class CurrentContext(Cluster):
    """A cluster that we did not make: nothing is brought up or down, no GPU is faked, no image can be loaded.

    SLIDINGSERVE_CONTEXT must be the name of the current context; without it the user is asked at a terminal.
    The context is copied to a file of its own, so that a later `kubectl config use-context` does not move
    us.
    """

    kind = "current"

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.context = self._config(environ, "current-context").strip()
        allowed = environ.get("SLIDINGSERVE_CONTEXT")
        if allowed is not None and allowed != self.context:
            raise ClusterError(
                f"SLIDINGSERVE_CONTEXT is {allowed!r}, the current context {self.context!r}: nothing was done"
            )
        if allowed is None and not _asked(self.context):
            raise ClusterError(
                f"not confirmed: set SLIDINGSERVE_CONTEXT={self.context} to use it, or CLUSTER=local or kind"
            )
        self.kubeconfig = cache.root() / "current" / "kubeconfig"
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(self._config(environ, "view", "--minify", "--flatten"))

    def up(self, *, dns: bool = True) -> None:
        """It must be up already."""
        if not self.is_up():
            raise ClusterError(f"the API server of context {self.context!r} does not answer")

    def down(self, *, drop_images: bool = False) -> None:
        """Only our copy of the credentials goes: the cluster is not ours."""
        self.kubeconfig.unlink(missing_ok=True)

    def kubectl_program(self) -> Path:
        """This machine's own if it fits, so that no Kubernetes is built for one command."""
        return tools.own("kubectl") or tools.path("kubectl")

    def exists(self) -> bool:
        """It is there, for all we know."""
        return True

    def load_image(self, layout: Path, name: str) -> None:
        """Refused: push the image to a registry that the cluster can pull from."""
        raise ClusterError(
            f"{name} cannot be loaded into a cluster that is not ours: push it to a registry of yours"
        )

    @staticmethod
    def _config(environ: Mapping[str, str], *arguments: str) -> str:
        program = tools.own("kubectl") or tools.path("kubectl")
        command = [str(program), "config", *arguments]
        done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(
                f"CLUSTER=current: kubectl config {' '.join(arguments)} failed: {done.stderr.strip()}"
            )
        return done.stdout


def _asked(context: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(
        f"This will act on your cluster through context {context!r}. Type its name to go on: ",
        end="",
    )
    return input().strip() == context
