"""What a test gets: the cluster, a namespace of its own, and on failure a folder that says what was wrong."""

import os
import secrets
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster import api, cache
from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError

LOGS = Path("build") / "cluster-logs"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster that CLUSTER names, up, and left as found (KEEP_CLUSTER=1, or other tests, keep it up)."""
    chosen = api.get()
    users_file = f".users{api.chosen_number() or ''}"
    with cache.using(cache.root() / chosen.kind / users_file) as users:
        was_there = chosen.exists()
        chosen.up()
        yield chosen
        if not was_there and os.environ.get("KEEP_CLUSTER") != "1" and users.alone():
            chosen.down()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace. When the test has ended its pods are gone and the rest is on its way out."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
    yield name
    cluster.kubectl("delete", "pods", "--all", "-n", name, "--grace-period=1", "--timeout=60s")
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """When a test that uses the cluster fails, keep what the cluster has to say about it."""
    report = yield
    used = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(used, Cluster):
        directory = LOGS / item.nodeid.rpartition("/")[2].replace("::", ".").replace("/", "_")
        try:
            keep_evidence(used, directory)
            report.sections.append(("cluster", f"pods, events and logs are in {directory}"))
        except (ClusterError, OSError) as error:
            report.sections.append(("cluster", f"its state could not be written: {error}"))
    return report


def keep_evidence(cluster: Cluster, directory: Path) -> None:
    """Write pods, events, descriptions and the logs of every container to `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, arguments in {
        "pods.txt": ("get", "pods", "-A", "-o", "wide"),
        "events.txt": ("get", "events", "-A", "--sort-by=.lastTimestamp"),
        "describe.txt": ("describe", "pods,deployments,services", "-A"),
        "nodes.txt": ("describe", "nodes"),
        "sloserves.yaml": ("get", "sloserves", "-A", "-o", "yaml"),
    }.items():
        (directory / name).write_text(cluster.kubectl(*arguments, check=False))
    listed = cluster.kubectl(
        "get", "pods", "-A", "-o",
        "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}", check=False,
    )  # fmt: skip
    for pod in listed.split():
        namespace, _, name = pod.partition("/")
        for suffix, extra in (("", ()), (".previous", ("--previous",))):
            tail = ("--all-containers", "--prefix", "--tail=2000", *extra)
            text = cluster.kubectl("logs", name, "-n", namespace, *tail, check=False)
            if text:
                (directory / f"{namespace}.{name}{suffix}.log").write_text(text)
