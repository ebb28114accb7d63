"""A release in a namespace of the test, and the CRD given back at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chart.helm import helm
from tests.chart.release import Release, own_crd
from tests.cluster.api import Cluster


@pytest.fixture(scope="package")
def crd(cluster: Cluster) -> Iterator[None]:
    """Lets the tests install and upgrade the CRD."""
    with own_crd(cluster):
        yield


@pytest.fixture
def release(cluster: Cluster, namespace: str, crd: None) -> Iterator[Release]:
    made = Release(cluster, namespace)
    yield made
    helm("uninstall", "sloserve", "-n", namespace, "--ignore-not-found", cluster=cluster)
