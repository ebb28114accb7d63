"""Fixtures that every folder of tests may use."""

from tests.cluster.fixtures import cluster, namespace, pytest_runtest_makereport

__all__ = ["cluster", "namespace", "pytest_runtest_makereport"]
