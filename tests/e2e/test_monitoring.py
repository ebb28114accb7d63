"""A real Prometheus scrapes what the chart's PodMonitors name, and no panel of the dashboards stays empty."""

from __future__ import annotations

import asyncio
import threading

import pytest
from slidingserve.bench.client import Target
from slidingserve.bench.replay import replay
from slidingserve.bench.workload import DEFAULT_MIX, generate

from tests.cluster.monitoring import Prometheus
from tests.dashboards.live import without_data
from tests.demo.engine import kept_by_class
from tests.demo.kube import until
from tests.e2e.conftest import Demo

pytestmark = pytest.mark.cluster


def test_every_query_of_the_dashboards_returns_data_under_load(demo: Demo, prometheus: Prometheus) -> None:
    model = demo.engine.models()[0]
    stop = threading.Event()

    def load() -> None:
        seed = 0
        while not stop.is_set():
            items = generate(DEFAULT_MIX, 12, 2.0, seed)
            asyncio.run(replay(items, Target(demo.engine.api, model, seed, cache_salt=f"load-{seed}")))
            seed += 1

    thread = threading.Thread(target=load)
    thread.start()
    try:
        until(lambda: not without_data(prometheus), "data for every panel", 90, every=3)
    except TimeoutError as error:
        raise AssertionError(f"panels without data: {without_data(prometheus)}") from error
    finally:
        stop.set()
        thread.join(60)


def test_the_rules_record_attainment_and_burn_rate_of_every_class(demo: Demo, prometheus: Prometheus) -> None:
    demo.engine.wait_drained()
    classes = {name for name, count in kept_by_class(demo.engine.metrics()).items() if count.requests}
    where = f'namespace="{demo.kube.namespace}",sloserve="{demo.name}"'

    def recorded() -> bool:
        names = ("attainment", "burn_rate")
        found = [prometheus.query(f"slo:{name}:ratio_rate1h{{{where}}}") for name in names]
        return all(classes <= {sample.labels["slo_class"] for sample in samples} for samples in found)

    until(recorded, f"attainment and burn rate of {classes}", 60, every=1)
    assert set(prometheus.rules().values()) == {"ok"}


def test_prometheus_counts_what_the_engine_counts(demo: Demo, prometheus: Prometheus) -> None:
    demo.engine.wait_drained()
    kept = kept_by_class(demo.engine.metrics())
    assert sum(count.requests for count in kept.values()) > 0
    where = f'objective="request",namespace="{demo.kube.namespace}",sloserve="{demo.name}"'
    query = f"sum by (slo_class) (slidingserve_slo_good_total{{{where}}})"

    def same() -> bool:
        seen = {sample.labels["slo_class"]: sample.value for sample in prometheus.query(query)}
        return {name: seen.get(name) for name in kept} == {name: count.good for name, count in kept.items()}

    until(same, f"Prometheus has {kept}", 30, every=1)
