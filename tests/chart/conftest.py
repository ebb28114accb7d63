"""The cluster of the chart's tests: up before the first test that asks for it, left up for the next ones."""

import pytest

from tests.cluster import api
from tests.cluster.api import Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The chosen kind of cluster, up."""
    chosen = api.get()
    chosen.up()
    return chosen
