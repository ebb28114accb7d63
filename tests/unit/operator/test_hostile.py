"""Whatever an engine answers, the API server takes the status that comes of it, and no pass breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sloserve_operator.api.engine import EngineState
from sloserve_operator.attainment import Window
from sloserve_operator.status import Subject, compute
from sloserve_operator.view import Observed, PodView

from tests.unit.operator.objects import deployment, pod, resource

CRD = yaml.safe_load((Path(__file__).parents[3] / "crds" / "sloserves.sloserve.dev.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
LARGEST = 2**63 - 1


def read(body: bytes) -> EngineState | None:
    """As the reader does: a state, or None for one that is not understood."""
    try:
        return EngineState.model_validate_json(body)
    except ValidationError:
        return None


def status_of(*looks: EngineState | None) -> dict[str, Any]:
    """The status after a pod's engine said these things in turn."""
    one, window = resource(), Window()
    for at, said in enumerate(looks):
        view = PodView(pod(), said, "" if said else "answered with a state that is not understood")
        recent = window.recent([view], at * 700.0)
        observed = Observed(deployment(), [view], recent=recent)
    subject = Subject(one.name, 1, 1, "http://chat", {}, one.spec.slo_classes)
    return compute(subject, observed, None, "2026-01-01T00:00:00Z")


def stored(status: dict[str, Any]) -> None:
    """Fails if the API server would refuse it: JSON as it is sent, by the CRD's schema, numbers that fit."""
    document = json.loads(json.dumps(status, allow_nan=False).encode("utf-8"))
    jsonschema.validate(document, SCHEMA)

    def walk(value: Any) -> None:
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                walk(inner)
        assert not isinstance(value, int) or abs(value) <= LARGEST

    walk(document)


HOSTILE = {
    "alpha is not a number": b'{"alpha": NaN}',
    "alpha is infinite": b'{"alpha": 1e999}',
    "a generation above 64 bits": b'{"applied": {"revision": "a", "generation": 99999999999999999999}}',
    "a generation of 5,000 digits": b'{"applied": {"generation": ' + b"9" * 5000 + b"}}",
    "a negative generation": b'{"applied": {"revision": "a", "generation": -1}}',
    "negative counts": b'{"classes": {"dialogue": {"good": -2, "violations": {"request": 5}}}}',
    "counts that are text": b'{"classes": {"dialogue": {"good": "many"}}}',
    "half a request": b'{"classes": {"dialogue": {"good": 1.5}}}',
    "nested 100,000 deep": b'{"predictor": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "an error that is not a number": b'{"predictor": {"overall": {"samples": 5, "mae_share": -Infinity}}}',
    "half a surrogate": b'{"applied": {"revision": "\\ud800", "generation": 1}}',
    "bytes that are no text": b'{"policy": "\xff\xfe"}',
    "a policy of a megabyte": b'{"policy": "' + b"x" * 1_000_000 + b'"}',
    "a page of HTML": b"<html><body>It works!</body></html>",
    "nothing": b"",
    "a list": b"[]",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_that_is_out_of_bounds_is_not_understood(body: bytes) -> None:
    assert read(body) is None
    stored(status_of(None))


def test_what_engines_say_is_within_the_bounds() -> None:
    said = read(
        json.dumps(
            {
                "version": "0.1.0",
                "applied": {"revision": "0123456789ab", "generation": 2**53},
                "alpha": 0.8,
                "classes": {"dialogue": {"requests": 9, "good": 5, "violations": {"request": 2**50}}},
                "predictor": {"calibrated": True, "overall": {"samples": 7, "mae_share": 0.1}},
                "of a newer engine": [1, 2, {"x": None}],
            }
        ).encode()
    )
    assert said is not None
    stored(status_of(said))


NUMBERS = st.one_of(
    st.integers(-5, 300), st.integers(), st.floats(), st.sampled_from([2**31, 2**53, 2**63, 10**20, -1])
)
LEAVES = st.one_of(NUMBERS, st.none(), st.booleans(), st.text(max_size=20))
JUNK = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)
COUNTS = st.fixed_dictionaries(
    {},
    optional={"good": NUMBERS, "violations": st.dictionaries(st.just("request"), NUMBERS), "requests": JUNK},
)
SAYINGS = st.fixed_dictionaries(
    {},
    optional={
        "version": LEAVES,
        "applied": st.fixed_dictionaries({}, optional={"revision": LEAVES, "generation": NUMBERS}) | JUNK,
        "rejected": st.fixed_dictionaries({}, optional={"message": LEAVES, "generation": NUMBERS}) | JUNK,
        "fallback": st.fixed_dictionaries({}, optional={"reason": LEAVES}) | JUNK,
        "policy": LEAVES,
        "alpha": NUMBERS,
        "classes": st.dictionaries(st.sampled_from(["dialogue", "batch", "x"]), COUNTS) | JUNK,
        "predictor": st.fixed_dictionaries(
            {},
            optional={"calibrated": LEAVES, "overall": st.dictionaries(st.just("samples"), NUMBERS) | JUNK},
        ),
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SAYINGS, min_size=1, max_size=4))
def test_no_answer_makes_a_status_that_the_api_server_refuses(sayings: list[dict[str, Any]]) -> None:
    looks = [read(json.dumps(saying).encode("utf-8", "surrogatepass")) for saying in sayings]
    status = status_of(*looks)
    stored(status)
    for found in status.get("sloClasses", []):
        share = found.get("attainment", "0 %")
        assert 0 <= float(share.removesuffix(" %")) <= 100, "no share below 0 or above 1"
