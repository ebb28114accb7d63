"""What one API server knows, from files that cores write and a configuration that changes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.solo import SoloTable
from slidingserve.server import state
from slidingserve.server.frontend import FrontEnd
from slidingserve.server.promise import PromiseError
from slidingserve.server.runtime import Runtime

from tests.unit.server.conftest import DOCUMENT

SOLO = SoloTable.from_model(default_model("cpu"), max_prompt=2048)
Make = Callable[..., FrontEnd]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    config_dir = tmp_path / "config"
    config_dir.mkdir()
    (config_dir / "slidingserve.json").write_text(json.dumps(DOCUMENT))

    def build(cores: int = 1, **runtime: Any) -> FrontEnd:
        where = Runtime(tmp_path, config_dir, **runtime)
        where.process_dir.mkdir(exist_ok=True)
        expected = {"api": 1, "core": cores}
        return FrontEnd(
            where, index=0, expected=expected, max_batch_tokens=2048, vllm_version="0.32.0", solo=SOLO
        )

    return build


def gauge(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value("slidingserve_" + name, labels)


def core(front: FrontEnd, **more: Any) -> None:
    labels = {"revision": DOCUMENT["revision"], "generation": DOCUMENT["generation"]}
    state.write(front.runtime.process_dir, {"role": "core", "index": 0, "pid": 1, **labels, **more})


def test_a_slowdown_uses_the_table_that_the_core_published(make: Make) -> None:
    front = make()
    before = front.promise(None, {"slo_class": "batch"}, 1000)
    assert before.ttft == pytest.approx(5 * SOLO.seconds(1000))
    core(front, solo=SoloTable((1, 2048), (1.0, 3.0)).to_json())
    assert front.promise(None, {"slo_class": "batch"}, 2048).ttft < 15.0, "no file is read in the event loop"
    front.read_cores()
    after = front.promise(None, {"slo_class": "batch"}, 2048)
    assert after.ttft == pytest.approx(15.0)
    assert before.ttft != after.ttft, "frozen for each request at its arrival"


def test_a_bad_value_in_the_body_is_refused(make: Make) -> None:
    with pytest.raises(PromiseError, match=r"vllm_xargs\.slo_class"):
        make().promise(None, {"slo_class": "gone"}, 10)


def test_targets_of_a_class_are_gauges_and_go_when_the_class_goes(make: Make) -> None:
    front = make()
    assert gauge("slo_target_seconds", slo_class="dialogue", objective="ttft") == 0.5
    assert gauge("slo_target_seconds", slo_class="dialogue", objective="tbt") == 0.04
    assert gauge("slo_objective_ratio", slo_class="dialogue") == 0.99
    slowdown = gauge("slo_target_seconds", slo_class="batch", objective="ttft")
    assert slowdown is not None
    assert math.isnan(slowdown)
    assert front.runtime.config_dir is not None
    only = {**DOCUMENT, "generation": 4, "classes": DOCUMENT["classes"][:1]}
    (front.runtime.config_dir / "slidingserve.json").write_text(json.dumps(only))
    assert front.live.read()
    front._changed(front.live.view)
    gone = gauge("slo_target_seconds", slo_class="batch", objective="tbt")
    assert gone is not None
    assert math.isnan(gone)


def test_the_state_waits_for_the_core_and_then_names_what_both_have(make: Make) -> None:
    front = make()
    assert front.state()["applied"]["generation"] == 0
    core(front)
    assert front.state()["applied"] == {"revision": "aaaaaaaaaaaa", "generation": 3}


@pytest.mark.parametrize("cores", [0, 1])
def test_a_fallback_is_in_the_state_and_in_a_metric(make: Make, cores: int) -> None:
    front = make(cores, fallback_reason="a reason")
    front.start()
    assert front.state()["fallback"] == {"reason": "a reason"}
    assert front.state()["applied"]["generation"] == 3
    assert gauge("fallback", engine="0") == 1
    front.live.stop()
