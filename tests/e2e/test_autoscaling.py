"""Kubernetes' own autoscaler on a real engine's metrics: Prometheus, prometheus-adapter, HPA, operator.

The configuration is the one of docs/autoscaling.md, with a smaller target and without its long windows. The
second engine is not waited for: two do not run on the machines of these tests. What counts is the number.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cluster.api import Cluster
from tests.cluster.monitoring import Prometheus, adapter
from tests.demo.kube import until
from tests.e2e.audit import Audit
from tests.e2e.conftest import KEEP, Demo

pytestmark = pytest.mark.cluster

DOCS = (Path(__file__).parents[2] / "docs" / "autoscaling.md").read_text()
REQUESTS = 6


def documented(title: str) -> str:
    """A YAML block of the page by its first line."""
    (text,) = re.findall(rf"```yaml\n# {re.escape(title)}\n(.*?)```", DOCS, re.DOTALL)
    return str(text)


@pytest.fixture
def custom_metrics(cluster: Cluster, prometheus: Prometheus) -> Iterator[None]:
    """prometheus-adapter as the page configures it."""
    adapter.install(cluster, documented("prometheus-adapter: config.yaml"))
    yield
    if not KEEP:
        adapter.uninstall(cluster)


@pytest.fixture
def load(demo: Demo) -> Iterator[threading.Event]:
    """Requests in the engine, always the same number, until the event is set."""
    enough = threading.Event()
    model = demo.engine.models()[0]
    body = {"model": model, "prompt": "one two three", "max_tokens": 100, "ignore_eos": True}

    def client() -> None:
        with httpx.Client(timeout=120, trust_env=False) as http:
            while not enough.is_set():
                http.post(f"{demo.engine.api}/completions", json=body)

    threads = [threading.Thread(target=client) for _ in range(REQUESTS)]
    for thread in threads:
        thread.start()
    yield enough
    enough.set()
    for thread in threads:
        thread.join(120)


@pytest.fixture
def autoscaler(demo: Demo, custom_metrics: None) -> Iterator[str]:
    """The page's HorizontalPodAutoscaler for the shared resource; 3 requests an engine, 2 engines at most."""
    obj = yaml.safe_load(documented("HorizontalPodAutoscaler"))
    obj["metadata"]["name"] = obj["spec"]["scaleTargetRef"]["name"] = demo.name
    obj["spec"]["maxReplicas"] = 2
    obj["spec"]["metrics"][0]["pods"]["target"]["averageValue"] = "3"
    obj["spec"]["behavior"]["scaleDown"] = {"stabilizationWindowSeconds": 0}
    demo.kube.apply(obj)
    yield demo.name
    demo.kube.run("delete", "hpa", demo.name)
    demo.kube.run("scale", "sloserve", demo.name, "--replicas=1")
    until(lambda: len(demo.kube.pods(demo.name)) == 1, "one engine", 120)


def numbers(demo: Demo) -> tuple[int, int]:
    """Replicas of the resource and of its Deployment."""
    deployment = demo.kube.get("deployment", demo.name)
    assert deployment is not None
    return demo.kube.resource(demo.name)["spec"]["replicas"], deployment["spec"]["replicas"]


def reached(demo: Demo, number: int) -> None:
    try:
        until(lambda: numbers(demo) == (number, number), f"{number} here and there", 120, every=1)
    except TimeoutError as error:
        hpa: dict[str, Any] = demo.kube.get("hpa", demo.name) or {}
        raise AssertionError(f"{error}; the autoscaler says {hpa.get('status')}") from error


def test_an_autoscaler_follows_the_requests_in_the_engines(
    demo: Demo, audit: Audit, load: threading.Event, autoscaler: str
) -> None:
    engine = demo.identity()
    reached(demo, 2)
    load.set()
    reached(demo, 1)
    until(lambda: len(demo.kube.pods(demo.name)) == 1, "one engine", 60)
    assert demo.identity() == engine, "the one that served"
    mine = [write for write in audit.writes() if write.what in ("sloserves", "sloserves/scale")]
    assert mine == [], "the operator hands the number down and never writes it"


def test_prometheus_answers_the_documented_queries_with_one_number(
    demo: Demo, prometheus: Prometheus
) -> None:
    """They are KEDA's triggers, too."""
    triggers = yaml.safe_load(documented("KEDA"))["spec"]["triggers"]
    queries = re.findall(r"```promql\n#[^\n]*\n(.*?)```", DOCS, re.DOTALL)
    queries += [trigger["metadata"]["query"] for trigger in triggers]
    assert len(queries) == 4
    for query in queries:
        here = query.replace('"team-a"', f'"{demo.kube.namespace}"').replace('"chat"', f'"{demo.name}"')
        (sample,) = prometheus.query(here)
        assert sample.value >= 0, query
