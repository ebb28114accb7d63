from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from slidingserve.core.snapshot import Phase, Row, Snapshot

from tests.unit.engine.states import decoding, prefilling, snapshots, state, waiting


def test_a_deadline_is_arrival_plus_first_token_limit_plus_one_tbt_for_each_delivered_token() -> None:
    rows = [Row("a", Phase.DECODE, 10.0, 100, 103, k, 0.5, 0.04) for k in (1, 2, 3)]
    deadlines = Snapshot.from_rows(rows, now=0.0, max_tokens=8).deadline
    np.testing.assert_allclose(deadlines, [10.54, 10.58, 10.62])


def test_tokens_that_came_early_build_slack() -> None:
    early = Row("a", Phase.DECODE, 0.0, 100, 110, 10, 0.5, 0.04)
    snapshot = Snapshot.from_rows([early], now=0.3, max_tokens=8)
    assert snapshot.slack[0] == pytest.approx(0.6)


def test_a_preempted_request_prefills_prompt_and_output_and_is_due_with_its_next_token() -> None:
    preempted = Row("a", Phase.WAITING, 0.0, 130, 0, 30, 0.5, 0.04)
    snapshot = Snapshot.from_rows([preempted], now=1.0, max_tokens=8)
    assert snapshot.remaining[0] == 130
    assert snapshot.deadline[0] == pytest.approx(0.5 + 30 * 0.04)


def test_the_phase_makes_a_decode_not_the_token_count() -> None:
    snapshot = state(prefilling("last chunk", 1), decoding("decode"))
    assert snapshot.is_decode.tolist() == [False, True]
    assert snapshot.remaining.tolist() == [1, 1]


@given(snapshots())
def test_a_snapshot_survives_its_json_form(snapshot: Snapshot) -> None:
    document = json.loads(json.dumps(snapshot.to_json()))
    again = Snapshot.from_json(document)
    assert again.to_json() == snapshot.to_json()
    np.testing.assert_array_equal(again.slack, snapshot.slack)


def _document(**changes: Any) -> dict[str, Any]:
    return {**state(waiting("a", 100), waiting("b", 10)).to_json(), **changes}


def _with_request(**changes: Any) -> dict[str, Any]:
    document = _document()
    document["requests"][1].update(changes)
    return document


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "snapshot: [] is not a JSON object"),
        (_document(requests={}), "requests: {} is not a list; give a list of request objects"),
        (_document(max_tokens=0), "max_tokens: 0 is out of bounds; give a whole number from 1 to"),
        (_document(now="soon"), "now: 'soon' is not a number"),
        (_document(now=None), "now: it is missing; give a number"),
        (_document(now=float("nan")), "now: nan is out of bounds"),
        (
            _document(budget=3),
            "snapshot: 'budget' is not a field of it; the fields are free_kv_tokens, max_adm",
        ),
        (
            _with_request(tbt_limit=-1),
            "requests[1].tbt_limit: -1 is out of bounds; give a number from 1e-06 to",
        ),
        (
            _with_request(prefill_tokens=2.5),
            "requests[1].prefill_tokens: 2.5 is out of bounds; give a whole number",
        ),
        (
            _with_request(phase="done"),
            "requests[1].phase: 'done' is no phase; choose one of waiting, prefill, decode",
        ),
        (_with_request(id=""), "requests[1].id: '' is no id; give a string of 1 to 256 characters"),
        (_with_request(id="a"), "requests[1].id: 'a' is there twice; give each request its own id"),
        (_with_request(safeguard=1), "requests[1].safeguard: 1 is no truth value; give true or false"),
        (
            _with_request(computed_tokens=10),
            "requests[1].computed_tokens: 10 leaves nothing of 10 tokens to prefill",
        ),
        (_with_request(arrival=True), "requests[1].arrival: True is not a number"),
        (_document(requests=[{}] * 1025), "requests: 1025 are too many; send at most 1024"),
    ],
)
def test_nonsense_is_one_sentence_with_field_value_and_remedy(document: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=": ") as refusal:
        Snapshot.from_json(document)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)
