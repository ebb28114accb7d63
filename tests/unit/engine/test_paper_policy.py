from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve import policies
from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Phase, Row, Snapshot
from slidingserve.policies import PolicySettings
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.features import batch_features
from slidingserve.predictor.model import LatencyModel

from tests.unit.engine.states import MODEL, decoding, models, prefilling, snapshots, state, waiting

PLAN_STATE = Path(__file__).parents[2] / "data" / "plan_state.json"

settings = st.builds(
    PolicySettings,
    alpha=st.floats(0, 2),
    min_chunk=st.integers(1, 64),
    max_chunk=st.one_of(st.none(), st.integers(64, 512)),
    margin=st.floats(1, 2),
    late=st.sampled_from(["last", "paper_equation"]),
    tight=st.sampled_from(["hold", "min_chunk"]),
)


def plan(snapshot: Snapshot, model: LatencyModel = MODEL, chosen: PolicySettings | None = None) -> Plan:
    made = policies.get("slidingserve_paper").plan(snapshot, model, chosen or PolicySettings())
    assert made is not None
    return made


def plan_of(*rows: Row, **engine: object) -> Plan:
    return plan(state(*rows, **engine))  # type: ignore[arg-type]


@given(snapshots(), models, settings)
def test_a_plan_never_exceeds_the_batch_the_requests_or_the_cache(
    snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    made = plan(snapshot, model, chosen)
    row = {name: i for i, name in enumerate(snapshot.ids)}
    assert sum(made.tokens.values()) == made.budget <= snapshot.max_tokens
    for name, count in made.tokens.items():
        assert 1 <= count <= snapshot.remaining[row[name]]
    prefilled = {name: n for name, n in made.tokens.items() if not snapshot.is_decode[row[name]]}
    decodes = len(made.tokens) - len(prefilled)
    if sum(prefilled.values()) > max(snapshot.free_kv_tokens - decodes, 0):
        assert len(made.tokens) == 1
        assert not snapshot.is_decode.any(), "the hint is only ignored when nothing else could run"
    admitted = [name for name in prefilled if snapshot.phase[row[name]] == Phase.WAITING]
    assert len(admitted) <= snapshot.max_admissions
    if chosen.max_chunk is not None:
        assert sum(prefilled.values()) <= chosen.max_chunk


@given(snapshots(), models, settings)
def test_every_decode_gets_exactly_one_token(
    snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    made = plan(snapshot, model, chosen)
    decodes = [name for name, decode in zip(snapshot.ids, snapshot.is_decode, strict=True) if decode]
    served = [name for name in decodes if name in made.tokens]
    assert [made.tokens[name] for name in served] == [1] * len(served)
    assert len(served) == min(len(decodes), snapshot.max_tokens)


@given(snapshots(), models, settings)
def test_the_same_input_gives_the_same_plan(
    snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    again = Snapshot.from_json(snapshot.to_json())
    assert plan(snapshot, model, chosen) == plan(again, model, chosen)


@given(snapshots(), models, settings)
def test_the_budget_is_offered_in_service_order_and_cuts_at_most_one_request(
    snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    made = plan(snapshot, model, chosen)
    left = dict(zip(snapshot.ids, snapshot.remaining.tolist(), strict=True))
    served = [name for name in made.order if name in made.tokens]
    cut = [name for name in served if made.tokens[name] < left[name]]
    assert cut in ([], served[-1:])


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


@given(snapshots(), models, settings)
def test_the_engine_always_has_something_to_do_if_anything_may_run(
    snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    may_run = (snapshot.phase != Phase.WAITING).any() or (len(snapshot) and snapshot.max_admissions)
    assert bool(plan(snapshot, model, chosen).tokens) == bool(may_run)


@given(snapshots(), models)
def test_a_batch_with_a_chunk_fits_the_tightest_decode_that_is_not_late(
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


def test_prediction_and_features_are_those_of_the_planned_batch() -> None:
    made = plan_of(decoding("d", slack=0.08), prefilling("p", 100, done=40), waiting("w", 5000))
    assert made.tokens["p"] == 100
    chunk = made.tokens["w"]
    features = batch_features([519], [(100, 40), (chunk, 0)])
    assert made.predicted_features == features
    assert made.predicted_seconds == MODEL.predict(features)


def test_the_chunk_shrinks_with_the_tightest_slack() -> None:
    def chunk(slack: float) -> int:
        return plan_of(decoding("tight", slack=slack), decoding("easy", slack=9), waiting("w", 5000)).tokens[
            "w"
        ]

    assert 16 < chunk(0.03) < chunk(0.06) < chunk(0.12)


def test_a_late_decode_no_longer_bounds_the_chunk() -> None:
    assert plan_of(decoding("late", slack=-0.01), waiting("w", 5000)).tokens["w"] == 2047


def test_without_decodes_the_batch_is_filled() -> None:
    assert plan_of(waiting("w", 5000)).tokens == {"w": 2048}


def test_before_any_throughput_was_measured_the_predictor_tells_what_is_urgent() -> None:
    full = 2048 / MODEL.predict(batch_features([], [(2048, 0)]))  # about 5000 tokens a second
    tight, easy = 4000 / full / 0.9, 4000 / full / 0.7
    rows = (waiting("short", 100), waiting("long", 4000, slack=tight))
    assert plan_of(*rows, throughput=0.0).order == ["long", "short"]
    rows = (waiting("short", 100), waiting("long", 4000, slack=easy))
    assert plan_of(*rows, throughput=0.0).order == ["short", "long"]


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
    assert document["predicted_s"] > 0


def test_fcfs_leaves_the_step_to_the_engine() -> None:
    assert policies.get("fcfs").plan(state(waiting("w", 50)), MODEL, PolicySettings()) is None


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match=r"'edf' is unknown; choose one of fcfs, slidingserve_paper"):
        policies.get("edf")
