"""Real vLLM on this machine's CPU: a tiny model, one served engine for all tests, and cores without a model.

vLLM is imported in fixtures only, so that collecting these tests needs no vLLM.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.loads import Counted, Make
from tests.engine.served import Served, start

ENVIRONMENT = {
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need vLLM, and its import is not free of warnings."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session", autouse=True)
def _environment() -> None:
    os.environ.update(ENVIRONMENT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with real, seeded weights: quick, and greedy decoding of it does not depend on batching."""
    target = tmp_path_factory.mktemp("model") / "tiny"
    command = [sys.executable, "-m", "slidingserve.bench.demo_model", str(target), "--size", "tiny"]
    subprocess.run(command, check=True, capture_output=True)
    return target


@pytest.fixture(scope="session")
def served(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One `slidingserve serve` for all tests that need a whole engine; it is slow to start."""
    engine = start(tiny_model, tmp_path_factory.mktemp("served"))
    yield engine
    engine.stop()


@pytest.fixture
def make(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes engine cores; a second one gets a directory of its own."""
    monkeypatch.setenv("VLLM_PLUGINS", "slidingserve")
    monkeypatch.setenv("SLIDINGSERVE_STATE_DIR", str(tmp_path))
    from slidingserve.vllm_adapter.plugin import register

    from tests.engine.cores import Core

    register()  # vLLM loads plugins once a process: an earlier test may have done so without our environment
    made: list[Any] = []

    def build(**options: Any) -> Any:
        made.append(Core(tiny_model, tmp_path / str(len(made)), monkeypatch, **options))
        return made[-1]

    yield build
    for core in made:
        core.close()


@pytest.fixture
def counted() -> Counted:
    from prometheus_client import REGISTRY
    from slidingserve.server.metrics import PREFIX

    values: dict[tuple[str, str], float] = {}

    def since(name: str, **labels: str) -> float:
        """How much a series grew since the last call for it."""
        now = REGISTRY.get_sample_value(PREFIX + name, labels) or 0.0
        key = (name, str(labels))
        before, values[key] = values.get(key, 0.0), now
        return now - before

    return since
