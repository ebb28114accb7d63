"""What a client may ask for, and the numbers it gets."""

from __future__ import annotations

import pytest
from slidingserve.config import EngineConfig
from slidingserve.server.promise import Asked, PromiseError, resolve


class Solo:
    def seconds(self, prompt_tokens: int) -> float:
        return prompt_tokens / 100


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


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "ten", "", "86400001", "1e400"])
def test_a_bad_number_names_the_header_the_value_and_the_remedy(config: EngineConfig, value: str) -> None:
    with pytest.raises(PromiseError) as refused:
        Asked.from_headers(headers(x_slo_ttft_ms=value), config)
    assert refused.value.param == "x-slo-ttft-ms"
    assert repr(value) in str(refused.value)
    assert "above 0" in str(refused.value)


@pytest.mark.parametrize("value", [True, None, [], {}, "x", 10**400])
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
