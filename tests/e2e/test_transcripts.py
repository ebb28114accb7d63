"""docs/kubectl.md: what it shows is what kubectl prints. `UPDATE_TRANSCRIPTS=1` writes the page anew."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster import tools
from tests.demo.kube import Kube, until
from tests.e2e.conftest import Demo
from tests.e2e.transcript import rerun

PAGE = Path(__file__).parents[2] / "docs" / "kubectl.md"


@pytest.fixture
def shell(kube: Kube, tmp_path: Path) -> Shell:
    return Shell(kube, tmp_path)


class Shell:
    """A shell in the root of the repository, with kubectl in the tests' namespace."""

    def __init__(self, kube: Kube, directory: Path) -> None:
        config = yaml.safe_load(kube.cluster.kubeconfig.read_text())
        for context in config["contexts"]:
            context["context"]["namespace"] = kube.namespace
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        programs = f"{tools.path('kubectl').parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**kube.cluster.environment(), "KUBECONFIG": str(path), "PATH": programs}

    def result(self, command: str) -> subprocess.CompletedProcess[str]:
        """Both streams as a terminal shows them, and the exit status."""
        return subprocess.run(
            ["bash", "-c", command], cwd=PAGE.parents[1], env=self.environment, text=True, timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip

    def run(self, command: str) -> str:
        return self.result(command).stdout

    def wait(self, command: str) -> None:
        until(lambda: self.result(command).returncode == 0, command, 120, every=0.5)


@pytest.mark.cluster
def test_the_page_shows_what_kubectl_prints(demo: Demo, shell: Shell) -> None:
    page = PAGE.read_text()
    try:
        now = rerun(page, shell.run, shell.wait)
    finally:
        shell.run("kubectl delete sloserve huge --ignore-not-found --timeout=60s")
    if os.environ.get("UPDATE_TRANSCRIPTS") == "1":
        PAGE.write_text(now)
    assert now == page, "UPDATE_TRANSCRIPTS=1 writes docs/kubectl.md anew; read what changed"
