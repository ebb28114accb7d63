"""Fixtures that every folder of tests may use."""

import signal

import pytest

from tests.cluster.fixtures import cluster, namespace, pytest_runtest_makereport

__all__ = ["cluster", "namespace", "pytest_runtest_makereport"]


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell starts what it puts in the background with Ctrl-C ignored, and so would every process under
    test."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
