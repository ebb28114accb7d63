"""The CRD on the cluster, a namespace, and an operator of the test's own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sloserve_operator.api import CRD
from sloserve_operator.api.crd import text

from tests.cluster.api import Cluster
from tests.contract.space import Operator, Space, until


@pytest.fixture(scope="session")
def crd(cluster: Cluster) -> Iterator[None]:
    """Today's CRD; taken away at the end if it was not there before."""
    there = cluster.kubectl("get", "crd", CRD, "--ignore-not-found", "-o", "name")
    apply = ("apply", "--server-side", "--force-conflicts", "--field-manager=contract-tests")
    cluster.kubectl(*apply, "-f", "-", stdin=text())
    until(lambda: cluster.kubectl_result("get", "sloserves", "-A").returncode == 0, "the CRD served")
    yield
    if not there:
        cluster.kubectl("delete", "crd", CRD, "--timeout=60s")


@pytest.fixture
def space(cluster: Cluster, crd: None, namespace: str, tmp_path: Path) -> Iterator[Space]:
    """A fresh namespace; its SLOServes go first, while an operator may still run."""
    found = Space(cluster, namespace, tmp_path)
    yield found
    found.run("delete", "sloserves", "--all", "--timeout=60s")


@pytest.fixture
def operator(space: Space) -> Iterator[Operator]:
    """A running operator for that namespace alone."""
    found = Operator(space)
    found.start()
    yield found
    if found.process:
        found.stop(signal.SIGKILL)
