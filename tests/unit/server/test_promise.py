"""What a client may ask for, and the numbers it gets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slidingserve.config import EngineConfig, builtin, loads
from slidingserve.core.snapshot import Phase, Snapshot
from slidingserve.policies import get
from slidingserve.predictor.calibration import default_model
from slidingserve.server.promise import ALIASES, HEADERS, XARGS, Asked, PromiseError, resolve

from tests.unit.server.conftest import DOCUMENT

CONFIG = loads(json.dumps(DOCUMENT))


class Solo:
    def seconds(self, prompt_tokens: int) -> float:
        return prompt_tokens / 100


class Empty:
    def seconds(self, prompt_tokens: int) -> float:
        return 0.0


def headers(**values: str) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in values.items()]


def test_no_headers_give_the_default_class_with_its_limits(config: EngineConfig) -> None:
    promise = resolve(Asked.from_headers([], config), config, 10, Solo())
    assert (promise.slo_class, promise.ttft, promise.tbt) == ("dialogue", 0.5, 0.04)
    assert promise.generation == 3


def test_a_slowdown_is_a_multiple_of_the_solo_time_of_this_prompt(config: EngineConfig) -> None:
    promise = resolve(Asked("batch"), config, 200, Solo())
    assert promise.ttft == pytest.approx(5 * 2.0)
    assert promise.safeguard


def test_limits_of_the_request_win_over_its_class(config: EngineConfig) -> None:
    asked = Asked.from_headers(headers(x_slo_class="batch", x_slo_ttft_ms="250", x_slo_tbt_ms="12.5"), config)
    promise = resolve(asked, config, 200, Solo())
    assert (promise.slo_class, promise.ttft, promise.tbt) == ("batch", 0.25, 0.0125)


def test_aliases_are_read_and_our_names_win_over_them(config: EngineConfig) -> None:
    only_alias = headers(x_llm_d_slo_ttft_ms="100", x_llm_d_slo_tpot_ms="20")
    assert Asked.from_headers(only_alias, config) == Asked(None, 100.0, 20.0)
    both = headers(x_slo_ttft_ms="300", x_llm_d_slo_ttft_ms="100")
    assert Asked.from_headers(both, config).ttft_ms == 300.0


def test_headers_win_over_the_body_field_by_field(config: EngineConfig) -> None:
    body = Asked.from_xargs({"slo_class": "batch", "slo_ttft_ms": 900, "top_k": 3}, config)
    assert Asked(ttft_ms=100.0).over(body) == Asked("batch", 100.0, None)


@pytest.mark.parametrize(
    "value",
    ["-1", "nan", "inf", "ten", "", "1e3", "1_0", "+7", "0x1", ".5", "5.", "300ms", "500, 800"],
)
def test_a_bad_number_names_the_header_the_value_and_the_remedy(config: EngineConfig, value: str) -> None:
    with pytest.raises(PromiseError) as refused:
        Asked.from_headers(headers(x_slo_ttft_ms=value), config)
    assert refused.value.param == "x-slo-ttft-ms"
    assert repr(value) in str(refused.value)
    assert "decimal digits" in str(refused.value)


@pytest.mark.parametrize(
    "value", [True, None, [], {}, "x", "\u0665\u0660\u0660", -1, -(10**400), float("nan"), float("inf")]
)
def test_a_bad_number_in_the_body_is_refused_too(config: EngineConfig, value: object) -> None:
    with pytest.raises(PromiseError, match=r"vllm_xargs.slo_tbt_ms"):
        Asked.from_xargs({"slo_tbt_ms": value}, config)


@pytest.mark.parametrize("value", ["nope", "", "Dialogue"])
def test_an_unknown_class_is_refused_with_the_names_there_are(config: EngineConfig, value: str) -> None:
    with pytest.raises(PromiseError, match="dialogue, batch") as refused:
        Asked.from_headers(headers(x_slo_class=value), config)
    assert refused.value.param == "x-slo-class"


def test_an_odd_class_in_the_body_is_refused_and_not_an_error_of_ours(config: EngineConfig) -> None:
    with pytest.raises(PromiseError, match=r"vllm_xargs.slo_class"):
        Asked.from_xargs({"slo_class": ["dialogue"]}, config)


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("0", 0.001),
        ("0.000", 0.001),
        ("0.0001", 0.001),
        ("129600000", 86_400_000.0),
        ("9" * 5000, 86_400_000.0),
    ],
)
def test_a_deadline_that_is_overdue_or_far_is_served_within_a_day_and_counted(
    config: EngineConfig, asked: str, served: float
) -> None:
    promise = resolve(Asked.from_headers(headers(x_llm_d_slo_ttft_ms=asked), config), config, 10, Solo())
    assert promise.ttft == served / 1000
    assert promise.clamped


@pytest.mark.parametrize("asked", [0, 0.0, 10**400, 1e300, 2**63])
def test_numbers_of_the_body_are_served_within_the_same_bounds(config: EngineConfig, asked: float) -> None:
    promise = resolve(Asked.from_xargs({"slo_tbt_ms": asked}, config), config, 10, Solo())
    assert promise.clamped
    assert 1e-6 <= promise.tbt <= 86_400


def test_nothing_of_a_plain_request_counts_as_clamped(config: EngineConfig) -> None:
    assert not resolve(Asked(), config, 10, Solo()).clamped
    assert not resolve(Asked("batch"), config, 10, Empty()).clamped, (
        "a class of the engine's owner, not of a client"
    )
    assert not resolve(Asked(ttft_ms=86_400_000.0, tbt_ms=0.001), config, 10, Solo()).clamped


def test_of_a_header_that_is_there_twice_the_first_counts_and_both_are_checked(config: EngineConfig) -> None:
    twice = headers(x_slo_ttft_ms="500") + headers(x_slo_ttft_ms="800")
    assert Asked.from_headers(twice, config).ttft_ms == 500.0
    for pair in (("nan", "60000"), ("60000", "nan")):
        bad = [header for value in pair for header in headers(x_slo_ttft_ms=value)]
        with pytest.raises(PromiseError, match=r"^x-slo-ttft-ms: 'nan' is not a number"):
            Asked.from_headers(bad, config)


@pytest.mark.parametrize("first", [True, False])
def test_a_bad_alias_beside_a_good_name_is_named(config: EngineConfig, first: bool) -> None:
    both = headers(x_llm_d_slo_ttft_ms="soon") + headers(x_slo_ttft_ms="300")
    with pytest.raises(PromiseError, match=r"^x-llm-d-slo-ttft-ms: 'soon'"):
        Asked.from_headers(both if first else both[::-1], config)


def test_a_class_that_is_there_twice_is_checked_twice(config: EngineConfig) -> None:
    with pytest.raises(PromiseError, match=r"^x-slo-class: 'nope'"):
        Asked.from_headers(headers(x_slo_class="batch") + headers(x_slo_class="nope"), config)


@pytest.mark.parametrize("name", ["x" * 5000, [1] * 5000, {"a": "b" * 5000}])
def test_what_was_sent_is_cut_in_the_sentence_about_it(config: EngineConfig, name: object) -> None:
    with pytest.raises(PromiseError) as refused:
        Asked.from_xargs({"slo_class": name}, config)
    assert len(str(refused.value)) < 200


TEXTS = st.text(max_size=40) | st.from_regex(r"[0-9]{1,400}(\.[0-9]{1,20})?", fullmatch=True)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.lists(st.integers(), max_size=3)


@given(st.lists(st.tuples(st.sampled_from([*HEADERS, *ALIASES]), TEXTS | st.sampled_from(["batch", "12"]))))
@settings(deadline=None)
def test_any_headers_give_limits_that_every_reader_holds_or_a_refusal_that_names_one(
    pairs: list[tuple[bytes, str]],
) -> None:
    sent = [(name, text.encode("latin-1", "replace")) for name, text in pairs]
    try:
        promise = resolve(Asked.from_headers(sent, CONFIG), CONFIG, 10, Solo())
    except PromiseError as error:
        named = error.param
    else:
        named = ""
        assert 1e-6 <= promise.ttft <= 86_400
        assert 1e-6 <= promise.tbt <= 86_400
    assert named.encode() in {b"", *dict(sent)}


@given(st.dictionaries(st.sampled_from(sorted(XARGS)), VALUES))
@settings(deadline=None)
def test_any_body_gives_limits_that_every_reader_holds_or_a_refusal_that_names_a_field(
    extra: dict[str, object],
) -> None:
    try:
        promise = resolve(Asked.from_xargs(extra, CONFIG), CONFIG, 10, Solo())
    except PromiseError as error:
        named = error.param.removeprefix("vllm_xargs.")
    else:
        named = ""
        json.dumps(promise.to_extra(1.0), allow_nan=False)
        assert 1e-6 <= promise.ttft <= 86_400
        assert 1e-6 <= promise.tbt <= 86_400
    assert named in {"", *extra}


def test_whoever_asks_for_the_impossible_stands_behind_all_that_can_still_be_in_time() -> None:
    """0 ms and the largest number of 64 bits, against a request with 300 ms that came last."""
    asked = {"zero": "0", "far": "9223372036854775807", "soon": "300"}
    limits = {
        name: resolve(Asked.from_headers(headers(x_slo_ttft_ms=value), CONFIG), CONFIG, 10, Solo()).ttft
        for name, value in asked.items()
    }
    # Of equal length, so that only promises and arrivals order them.
    rows = [
        (name, Phase.WAITING, 9.99 + i / 1000, 100, 0, 0, limits[name], 0.04) for i, name in enumerate(limits)
    ]
    snapshot = Snapshot.from_rows(rows, now=10.0, max_tokens=256, throughput=400.0)
    plan = get("slidingserve_paper").plan(snapshot, default_model("cuda"), builtin().policy_settings())
    assert plan is not None
    assert plan.to_json()["order"] == ["soon", "far", "zero"]
