"""A configuration, a clock that the test moves, and counters read as differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY
from slidingserve.config import EngineConfig, loads
from slidingserve.server import metrics

DOCUMENT: dict[str, Any] = {
    "schemaVersion": 1,
    "revision": "aaaaaaaaaaaa",
    "generation": 3,
    "classes": [
        {"name": "dialogue", "ttftMilliseconds": 500, "tbtMilliseconds": 40},
        {"name": "batch", "ttftSlowdown": 5, "tbtMilliseconds": 100, "safeguard": True},
    ],
    "defaultClass": "dialogue",
}


@pytest.fixture
def config() -> EngineConfig:
    import json

    return loads(json.dumps(DOCUMENT))


@pytest.fixture
def counted() -> Callable[..., float]:
    """How much a series has grown since the test began: counted("requests_total", slo_class="x")."""
    metrics._collectors()
    before = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
    }

    def since(name: str, **labels: str) -> float:
        name = metrics.PREFIX + name
        key = (name, tuple(sorted(labels.items())))
        return (REGISTRY.get_sample_value(name, labels) or 0.0) - before.get(key, 0.0)

    return since
