"""What holds for the paper's method as a whole; what every policy keeps to is in test_every_policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from slidingserve import policies
from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Phase, Row, Snapshot
from slidingserve.policies import PolicySettings
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.features import batch_features
from slidingserve.predictor.model import LatencyModel

from tests.unit.engine.states import MODEL, decoding, models, prefilling, settings, snapshots, state, waiting

PLAN_STATE = Path(__file__).parents[2] / "data" / "plan_state.json"


def plan(snapshot: Snapshot, model: LatencyModel = MODEL, chosen: PolicySettings | None = None) -> Plan:
    made = policies.get("slidingserve_paper").plan(snapshot, model, chosen or PolicySettings())
    assert made is not None
    return made


def plan_of(*rows: Row, options: dict[str, Any] | None = None, **engine: object) -> Plan:
    return plan(state(*rows, **engine), chosen=PolicySettings(**(options or {})))  # type: ignore[arg-type]


@given(snapshots(), models, settings)
def test_the_budget_is_offered_in_service_order_and_cuts_at_most_one_request(
    snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    made = plan(snapshot, model, chosen)
    left = dict(zip(snapshot.ids, snapshot.remaining.tolist(), strict=True))
    served = [name for name in made.order if name in made.tokens]
    cut = [name for name in served if made.tokens[name] < left[name]]
    assert len(cut) <= 1
    if made.branch == "chunker":
        assert cut in ([], served[-1:])
    elif chosen.rest == "leave":
        assert cut == [], "equation 22: whole prefills only"


@given(snapshots(), models)
def test_late_requests_never_take_tokens_from_one_that_is_on_time(
    snapshot: Snapshot, model: LatencyModel
) -> None:
    made = plan(snapshot, model)
    row = {name: i for i, name in enumerate(snapshot.ids)}
    late_served = [n for n in made.order if snapshot.slack[row[n]] <= 0 and n in made.tokens]
    starved = [
        name
        for name in made.order
        if snapshot.slack[row[name]] > 0
        and snapshot.phase[row[name]] == Phase.PREFILL
        and made.tokens.get(name, 0) < snapshot.remaining[row[name]]
    ]
    assert not (late_served and starved) or snapshot.free_kv_tokens == 0


@given(snapshots(), models)
def test_a_batch_with_a_prefill_fits_the_tightest_decode_that_is_not_late(
    snapshot: Snapshot, model: LatencyModel
) -> None:
    made = plan(snapshot, model)
    slack = [
        float(s)
        for s, name, decode in zip(snapshot.slack, snapshot.ids, snapshot.is_decode, strict=True)
        if decode and name in made.tokens and s > 0
    ]
    if made.predicted_features.prefill_tokens and slack:
        assert made.predicted_seconds <= min(slack)


@given(snapshots(), models)
def test_a_constructed_batch_ends_in_time_for_every_prefill_in_it(
    snapshot: Snapshot, model: LatencyModel
) -> None:
    made = plan(snapshot, model)
    if made.branch == "constructor":
        row = {name: i for i, name in enumerate(snapshot.ids)}
        prefills = [row[name] for name in made.order if name in made.tokens]
        assert made.predicted_seconds * PolicySettings().margin <= min(snapshot.slack[prefills]) * (1 + 1e-9)


def test_prediction_and_features_are_those_of_the_planned_batch() -> None:
    made = plan_of(decoding("d", slack=0.08), prefilling("p", 100, done=40), waiting("w", 5000))
    assert made.tokens["p"] == 100
    chunk = made.tokens["w"]
    features = batch_features([519], [(100, 40), (chunk, 0)])
    assert made.predicted_features == features
    assert made.predicted_seconds == MODEL.predict(features)


@pytest.mark.parametrize("window", ["single", "sliding"])
def test_the_chunk_shrinks_with_the_tightest_slack(window: str) -> None:
    def chunk(slack: float) -> int:
        made = plan_of(
            decoding("tight", slack=slack), decoding("easy", slack=9), waiting("w", 5000),
            options={"window": window},
        )  # fmt: skip
        return made.tokens["w"]

    assert 16 < chunk(0.03) < chunk(0.06) < chunk(0.12)


def test_a_late_decode_no_longer_bounds_the_chunk() -> None:
    rows = (decoding("late", slack=-0.01), waiting("w", 5000))
    assert plan_of(*rows).tokens["w"] == 2047
    assert plan_of(*rows, options={"safe_decodes": "all"}).tokens == {"late": 1}


def test_without_decodes_the_batch_is_filled() -> None:
    assert plan_of(waiting("w", 5000)).tokens == {"w": 2048}


def test_a_budget_caps_the_step() -> None:
    assert plan_of(waiting("w", 5000), options={"budget": 200}).tokens == {"w": 200}


def test_before_any_throughput_was_measured_the_predictor_tells_what_is_urgent() -> None:
    full = 2048 / MODEL.predict(batch_features([], [(2048, 0)]))  # about 5000 tokens a second
    tight, easy = 4000 / full / 0.9, 4000 / full / 0.7
    rows = (waiting("short", 100), waiting("long", 4000, slack=tight))
    assert plan_of(*rows, throughput=0.0).order == ["long", "short"]
    rows = (waiting("short", 100), waiting("long", 4000, slack=easy))
    assert plan_of(*rows, throughput=0.0).order == ["short", "long"]


AT_RISK = (
    decoding("d", slack=0.09),
    waiting("long", 3000, slack=0.4),
    waiting("a", 100, slack=0.09),
    waiting("b", 150, slack=0.09),
    waiting("late", 20, slack=-0.1),
)


def test_with_first_tokens_at_risk_the_constructor_saves_as_many_as_it_can() -> None:
    made = plan_of(*AT_RISK)
    assert (made.branch, made.tokens) == ("constructor", {"d": 1, "a": 100, "b": 150})
    assert made.reason == "whole prefills, chosen to save requests at risk"


def test_what_time_whole_prefills_leave_can_be_offered_to_the_queue() -> None:
    made = plan_of(*AT_RISK, options={"rest": "fill"})
    assert made.branch == "constructor"
    assert (made.tokens["a"], made.tokens["b"]) == (100, 150)
    assert set(made.tokens) == {"d", "a", "b", "long"}
    assert made.predicted_seconds * 1.15 <= 0.09


def test_the_ablation_switches_each_part_off() -> None:
    """Table 4: SC, SC+MLPS, SC+MLPS+BC."""
    chunker_alone = plan_of(*AT_RISK, options={"constructor": False, "sorter": "edf"})
    assert chunker_alone.branch == "chunker"
    assert chunker_alone.order == ["late", "a", "b", "long"]
    with_sorter = plan_of(*AT_RISK, options={"constructor": False})
    assert with_sorter.branch == "chunker"
    assert with_sorter.order == ["long", "a", "b", "late"]
    assert plan_of(*AT_RISK).branch == "constructor"


def test_if_no_request_at_risk_can_be_saved_the_chunker_decides_or_literally_nothing_is_prefilled() -> None:
    rows = (decoding("d", slack=0.09), waiting("hopeless", 3000, slack=0.1))
    assert plan_of(*rows).branch == "chunker"
    assert plan_of(*rows).tokens["hopeless"] > 16
    literal = plan_of(*rows, options={"all_anchors_fail": "nothing"})
    assert (literal.branch, literal.tokens) == ("constructor", {"d": 1})


def test_an_empty_engine_has_an_empty_plan() -> None:
    made = plan_of()
    assert (made.tokens, made.order, made.budget) == ({}, [], 0)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_alpha_changes_the_plan_of_the_recorded_state(device: str) -> None:
    """The state to send to POST /slidingserve/v1/plan to see alpha act."""
    snapshot = Snapshot.from_json(json.loads(PLAN_STATE.read_text()))
    plans = {
        alpha: plan(snapshot, default_model(device), PolicySettings(alpha=alpha)) for alpha in (0.3, 0.5, 0.8)
    }
    assert plans[0.3].order == ["medium", "long", "short"]
    assert plans[0.5].order == ["long", "short", "medium"]
    assert plans[0.8].order == ["short", "medium", "long"]
    assert plans[0.3].tokens == {"decoding": 1, "medium": 255}
    assert plans[0.5].tokens == {"decoding": 1, "long": 255}
    assert plans[0.8].tokens == {"decoding": 1, "short": 120, "medium": 135}


def test_a_plan_has_a_json_form() -> None:
    document = json.loads(json.dumps(plan_of(decoding("d", slack=9), waiting("w", 50)).to_json()))
    assert document["tokens"] == {"d": 1, "w": 50}
    assert document["order"] == ["w"]
    assert (document["branch"], document["budget"]) == ("chunker", 51)
    assert document["relegated"] == []
    assert document["predicted_s"] > 0


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    names = "fcfs, ppas, qoserve, sarathi_edf, slidingserve_paper"
    for look_up in (policies.get, policies.policy_id):
        with pytest.raises(ValueError, match=rf"'edf' is unknown; choose one of {names}"):
            look_up("edf")
