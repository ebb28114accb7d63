"""A whole engine from the outside: promises, verdicts, live settings, state, readiness."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from slidingserve.server.metrics import TABLE

from tests.engine.served import CLASSES, Served, wait, write_config

SNAPSHOT: dict[str, Any] = {
    "now": 10.0,
    "max_tokens": 256,
    "throughput": 1000.0,
    "requests": [
        {
            "id": name,
            "phase": "waiting",
            "arrival": 9.0,
            "prefill_tokens": tokens,
            "ttft_limit": limit,
            "tbt_limit": 0.1,
        }
        for name, tokens, limit in (("short", 100, 100.0), ("long", 900, 3.0))
    ],
}


@pytest.fixture(autouse=True)
def _plain(served: Served) -> Iterator[None]:
    """Each test begins with the classes of `served` and built-in scheduler settings."""
    yield
    if served.state()["rejected"] or served.state()["alpha"] != 0.8:
        served.configure()


def counts(served: Served, slo_class: str) -> dict[str, int]:
    """Requests, good and violations by objective of a class, in the state, once all of them are reported."""
    found = served.state()["classes"][slo_class]
    flat: dict[str, int] = {"requests": found["requests"], "good": found["good"], **found["violations"]}
    return flat


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after}


def stream(client: httpx.Client, prompt: str, tokens: int, headers: dict[str, str]) -> list[float]:
    """Stream a completion; seconds from sending to each token on this client's clock."""
    body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True}
    begin, times = time.monotonic(), []
    with client.stream("POST", "/v1/completions", json=body, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            if line.startswith("data: {") and json.loads(line[6:])["choices"][0]["text"]:
                times.append(time.monotonic() - begin)
    return times


def test_ready_was_never_200_before_a_token_was_generated_and_the_predictor_measured(served: Served) -> None:
    """By what the server had printed when it was; how many polls came before is the machine's speed."""
    assert "calibrated in" in served.log_when_ready
    assert {status for status, _ in served.seen_before_ready} <= {503}
    assert served.get("/slidingserve/v1/ready").status_code == 200


def test_the_state_is_complete(served: Served) -> None:
    state = served.state()
    assert state["schemaVersion"] == 1
    assert state["vllmVersion"].startswith("0.32.")
    assert state["applied"]["generation"] >= 1
    assert [(p["role"], p["index"]) for p in state["processes"]] == [("api", 0), ("core", 0)]
    assert state["fallback"] is None
    assert state["policy"] == "slidingserve_paper"
    assert state["predictor"]["calibrated"]
    assert {"decode", "prefill", "mixed"} <= state["predictor"]["scenes"].keys()


def test_all_metrics_of_the_table_are_on_vllms_own_page(served: Served) -> None:
    served.complete("hello")
    page = served.get("/metrics").text
    names = {line.split("{")[0].split(" ")[0] for line in page.splitlines() if not line.startswith("#")}
    suffix = {"histogram": "_count"}
    assert [m.sample for m in TABLE if m.sample + suffix.get(m.kind, "") not in names] == []
    assert any(name.startswith("vllm:") for name in names)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("header", "value"), [("x-slo-class", "nope"), ("x-slo-ttft-ms", "-3"), ("x-slo-tbt-ms", "nan")]
)
def test_a_bad_header_is_a_400_in_openai_form_even_for_a_stream(
    served: Served, path: str, header: str, value: str
) -> None:
    answer = httpx.post(served.url + path, json={"model": "tiny", "stream": True}, headers={header: value})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("BadRequestError", header, 400)
    assert value in error["message"]


def test_a_bad_value_in_the_body_is_a_400_and_for_a_stream_an_error_event(served: Served) -> None:
    answer = served.complete("hello", vllm_xargs={"slo_class": "nope"})
    assert answer.status_code == 400
    assert "vllm_xargs.slo_class" in answer.json()["error"]["message"]
    streamed = served.complete("hello", vllm_xargs={"slo_ttft_ms": -1}, stream=True)
    assert "vllm_xargs.slo_ttft_ms" in streamed.text


def test_headers_win_over_the_body(served: Served) -> None:
    strict, slow = counts(served, "strict"), counts(served, "slow")
    served.complete("hello", headers={"x-slo-class": "slow"}, vllm_xargs={"slo_class": "strict"})
    assert difference(slow, counts(served, "slow"))["requests"] == 1
    assert difference(strict, counts(served, "strict"))["requests"] == 0


def test_the_body_is_the_second_way_in_and_nobody_can_write_our_key(served: Served) -> None:
    strict = counts(served, "strict")
    forged = {"slo_class": "strict", "slidingserve": "x"}
    assert served.complete("hello", vllm_xargs=forged).status_code == 200
    missed = difference(strict, counts(served, "strict"))
    assert missed == {"requests": 1, "good": 0, "ttft": 1, "tbt": 1, "request": 1}


def test_several_sequences_of_one_request_count_as_one_request(served: Served) -> None:
    before = counts(served, "dialogue")
    answer = served.complete("hello", n=2, seed=11, temperature=1.0)
    texts = [choice["text"] for choice in answer.json()["choices"]]
    assert len(set(texts)) == 2
    two = {"model": "tiny", "prompt": ["one", "two"], "max_tokens": 4}
    assert len(httpx.post(served.url + "/v1/completions", json=two, timeout=60).json()["choices"]) == 2
    assert difference(before, counts(served, "dialogue"))["requests"] == 2
    assert difference(before, counts(served, "dialogue"))["good"] == 2


@pytest.mark.parametrize(("asked", "missed"), [("0", 1), ("129600000", 0), ("9223372036854775807", 0)])
def test_deadlines_as_gateways_send_them_are_served_and_counted(
    served: Served, asked: str, missed: int
) -> None:
    before, clamped = counts(served, "slow"), served.metric("deadlines_clamped_total", slo_class="slow")
    answer = served.complete("hello", headers={"x-slo-class": "slow", "x-llm-d-slo-ttft-ms": asked})
    assert answer.status_code == 200
    after = difference(before, counts(served, "slow"))
    assert (after["requests"], after["ttft"]) == (1, missed)
    assert served.metric("deadlines_clamped_total", slo_class="slow") - clamped == 1


def test_of_a_header_that_is_sent_twice_both_are_checked(served: Served) -> None:
    twice = [("x-slo-ttft-ms", "nan"), ("x-slo-ttft-ms", "60000")]
    assert served.complete("hello", headers=twice).json()["error"]["param"] == "x-slo-ttft-ms"
    assert (
        served.complete("hello", headers=[("x-slo-ttft-ms", "500"), ("x-slo-ttft-ms", "800")]).status_code
        == 200
    )


@pytest.mark.parametrize("change", ['"generation": 18446744073709551616', '"revision": "\\ud800"'])
def test_a_settings_file_that_no_reader_holds_is_refused_and_the_engine_serves_on(
    served: Served, change: str
) -> None:
    file = served.config_dir / "..data" / "slidingserve.json"
    scratch = served.config_dir / "next"
    good, before = file.read_text(), served.state()["applied"]
    document = {**json.loads(good), "schemaVersion": 2 if "revision" in change else 1}
    document.pop(change.split('"')[1])
    scratch.write_text(json.dumps(document)[:-1] + f", {change}}}")
    scratch.replace(file)
    try:
        wait(lambda: served.state()["rejected"], "it is refused")
        assert served.state()["applied"] == before
        assert served.complete("hello").status_code == 200
    finally:
        scratch.write_text(good)
        scratch.replace(file)
    wait(lambda: not served.state()["rejected"], "the good one is taken")


def test_a_beam_search_is_one_request_with_the_times_of_one_answer(served: Served) -> None:
    before = counts(served, "dialogue")
    samples = {
        name: served.metric(f"{name}_count", slo_class="dialogue") for name in ("ttft_seconds", "tbt_seconds")
    }
    answer = served.complete("hello", 20, use_beam_search=True, n=2, ignore_eos=True)
    assert answer.status_code == 200, answer.text
    after = difference(before, counts(served, "dialogue"))
    assert (after["requests"], after["good"], after["request"]) == (1, 1, 0)
    grown = {
        name: served.metric(f"{name}_count", slo_class="dialogue") - count for name, count in samples.items()
    }
    assert grown == {"ttft_seconds": 1, "tbt_seconds": 19}


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_whose_second_prompt_is_refused_is_no_request(served: Served, stream: bool) -> None:
    before = counts(served, "dialogue")
    answer = served.complete([[1], []], stream=stream)  # type: ignore[list-item]
    assert "error" in answer.text
    assert answer.status_code == (200 if stream else 400)
    assert set(difference(before, counts(served, "dialogue")).values()) == {0}


def test_an_echo_without_tokens_is_not_counted(served: Served) -> None:
    before, samples = counts(served, "dialogue"), served.metric("ttft_seconds_count", slo_class="dialogue")
    assert served.complete("hello", 0, echo=True).status_code == 200
    assert set(difference(before, counts(served, "dialogue")).values()) == {0}
    assert served.metric("ttft_seconds_count", slo_class="dialogue") == samples


def test_a_failure_before_anything_is_queued_is_a_miss(served: Served) -> None:
    before = counts(served, "dialogue")
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "x"}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
    }
    answer = httpx.post(served.url + "/v1/chat/completions", json=body, timeout=60)
    counted = 1 if answer.status_code >= 500 else 0  # a vLLM that looks first answers 400
    after = difference(before, counts(served, "dialogue"))
    assert (after["requests"], after["request"], after["good"]) == (counted, counted, 0)


def test_verdicts_agree_with_the_clients_own_clock(served: Served) -> None:
    before = counts(served, "slow")
    # Milliseconds to the first token and a token: sure to be kept, on the edge, sure to be missed.
    promises = [(20_000.0, 1000.0), (40.0, 4.0), (0.5, 0.1)]
    runs = []
    with httpx.Client(base_url=served.url, timeout=60) as client:
        client.get("/health")
        for number in range(15):
            ttft, tbt = promises[number % 3]
            headers = {"x-slo-class": "slow", "x-slo-ttft-ms": str(ttft), "x-slo-tbt-ms": str(tbt)}
            runs.append((ttft, tbt, stream(client, "x" * (20 * number + 1), 40, headers)))

    def kept(grace: float) -> int:
        return sum(
            all(t <= (ttft + tbt * k) / 1000 + grace for k, t in enumerate(ts)) for ttft, tbt, ts in runs
        )

    after = difference(before, counts(served, "slow"))
    assert after["requests"] == after["good"] + after["request"] == len(runs)
    assert after["good"] >= 5
    assert after["request"] >= 5
    # The server's clock starts later and stops earlier than the client's: it is kinder, and not by much.
    assert kept(0.0) <= after["good"] <= kept(0.1)


def core_pid(served: Served) -> int:
    return next(int(p["pid"]) for p in served.state()["processes"] if p["role"] == "core")


def test_a_frozen_core_fails_readiness_and_its_late_tokens_are_misses(served: Served) -> None:
    before, pid = counts(served, "dialogue"), core_pid(served)
    body = {"model": "tiny", "prompt": "freeze", "max_tokens": 1900, "stream": True, "ignore_eos": True}
    headers = {"x-slo-ttft-ms": "1000", "x-slo-tbt-ms": "1"}
    url = served.url + "/v1/completions"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=60) as answer:
        lines = answer.iter_lines()
        next(lines)
        os.kill(pid, signal.SIGSTOP)
        try:
            ready = served.get("/slidingserve/v1/ready")  # answers after its 2 s
        finally:
            os.kill(pid, signal.SIGCONT)
        for _ in lines:
            pass
    assert ready.status_code == 503
    assert "did not answer" in ready.json()["reason"]
    wait(lambda: served.get("/slidingserve/v1/ready").status_code == 200, "ready again")
    missed = difference(before, counts(served, "dialogue"))
    assert (missed["requests"], missed["tbt"], missed["request"], missed["good"]) == (1, 1, 1, 0)
    assert missed["ttft"] == 0


def test_a_client_that_goes_away_mid_stream_is_counted_as_that(served: Served) -> None:
    before = served.metric("client_disconnects_total", slo_class="slow")
    requests = counts(served, "slow")
    body = {"model": "tiny", "prompt": "bye", "max_tokens": 1900, "stream": True, "ignore_eos": True}
    headers = {"x-slo-class": "slow"}
    with httpx.stream("POST", served.url + "/v1/completions", json=body, headers=headers) as answer:
        next(answer.iter_lines())
    wait(
        lambda: served.metric("client_disconnects_total", slo_class="slow") == before + 1,
        "the disconnect is counted",
    )
    gone = difference(requests, counts(served, "slow"))
    assert gone == {"requests": 1, "good": 0, "ttft": 0, "tbt": 0, "request": 0}
    wait(lambda: served.metric("queue_requests", phase="decode") == 0, "the engine dropped the request")


def test_a_live_change_is_in_force_on_an_idle_engine_within_seconds(served: Served) -> None:
    taken = []
    pid = core_pid(served)
    for alpha in (0.1, 0.5, 0.2, 0.9, 0.3):
        document = write_config(served.config_dir, alpha=alpha)
        begin = time.monotonic()
        wait(lambda: served.state()["applied"] == labels(document), "applied everywhere", 5.0)  # noqa: B023
        taken.append(time.monotonic() - begin)
        assert served.metric("alpha", engine="0") == alpha
    assert core_pid(served) == pid
    assert sorted(taken)[2] < 2.0, taken


def labels(document: dict[str, Any]) -> dict[str, Any]:
    return {"revision": document["revision"], "generation": document["generation"]}


def test_a_class_can_change_and_go_while_the_engine_serves(served: Served) -> None:
    served.configure(classes=[CLASSES[0], {"name": "new", "ttftMilliseconds": 9_000, "tbtMilliseconds": 900}])
    assert served.complete("hello", headers={"x-slo-class": "new"}).status_code == 200
    assert counts(served, "new")["good"] == 1
    assert served.metric("slo_target_seconds", slo_class="new", objective="ttft") == 9.0
    assert served.complete("hello", headers={"x-slo-class": "strict"}).status_code == 400
    served.configure()
    assert served.complete("hello", headers={"x-slo-class": "strict"}).status_code == 200


def test_a_setting_that_only_this_engine_can_refuse_stays_out(served: Served) -> None:
    good = served.state()["applied"]
    write_config(served.config_dir, chunk={"maxTokens": 99999}, alpha=0.4)
    wait(lambda: served.state()["rejected"] is not None, "the refusal is reported")
    state = served.state()
    assert "scheduler.chunk.maxTokens: 99999 is above the 256 tokens" in state["rejected"]["message"]
    assert state["rejected"]["generation"] == good["generation"] + 1
    assert state["applied"] == good
    assert state["alpha"] == 0.8
    assert served.complete("hello").status_code == 200
    served.configure()
    assert served.state()["rejected"] is None


def test_keys_of_a_newer_operator_are_ignored_and_reported(served: Served) -> None:
    served.configure(admission={"mode": "reject"})
    assert served.state()["unknownKeys"] == ["scheduler.admission"]


def test_the_plan_of_a_recorded_state_changes_with_alpha(served: Served) -> None:
    orders = []
    for alpha in (0.01, 1000.0):
        served.configure(alpha=alpha)
        plan = httpx.post(served.url + "/slidingserve/v1/plan", json=SNAPSHOT).json()
        assert (plan["alpha"], plan["policy"]) == (alpha, "slidingserve_paper")
        assert sum(plan["tokens"].values()) <= plan["budget"]
        orders.append(plan["order"])
    assert orders[1] == ["short", "long"]
    served.configure(alpha=0.4)
    plan = httpx.post(served.url + "/slidingserve/v1/plan", json=SNAPSHOT).json()
    assert plan["order"] == ["long", "short"], "900 tokens in 2 s at 1,000 a second is urgent above 0.4"


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"now": "x"}', b"[" * 100_000, b"x" * (1 << 20) + b"y"])
def test_a_nonsensical_snapshot_is_a_400_with_a_sentence(served: Served, body: bytes) -> None:
    answer = httpx.post(served.url + "/slidingserve/v1/plan", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_a_damaged_state_file_is_tolerated_and_mended(served: Served) -> None:
    file = served.state_dir / "processes" / "core-0.json"
    file.write_bytes(b'{"role": "core", \xff')
    assert served.get("/slidingserve/v1/state").status_code == 200
    assert served.complete("hello").status_code == 200
    wait(lambda: len(served.state()["processes"]) == 2, "the core wrote its file again")


def test_the_policy_is_hot_and_fcfs_leaves_each_step_to_vllm(served: Served) -> None:
    served.configure(policy="fcfs")
    before = served.metric("plans_total", policy="fcfs", branch="stock")
    assert served.complete("hello").status_code == 200
    assert served.metric("plans_total", policy="fcfs", branch="stock") > before
    assert httpx.post(served.url + "/slidingserve/v1/plan", json=SNAPSHOT).json()["branch"] == "stock"
    served.configure()
    before = served.metric("plans_total", policy="slidingserve_paper", branch="chunker")
    served.complete("hello")
    assert served.metric("plans_total", policy="slidingserve_paper", branch="chunker") > before


def test_the_predictor_is_refitted_while_serving(served: Served) -> None:
    served.configure(predictor={"refreshSeconds": 0.2})
    samples = served.state()["predictor"]["samples"]

    def refreshed() -> bool:
        served.complete("a" * 300, 16)
        return served.metric("predictor_refreshes_total", engine="0") > 0

    wait(refreshed, "a refit was put in force", 60.0)
    wait(lambda: served.state()["predictor"]["samples"] > samples, "served batches were learnt from")
    assert served.state()["predictor"]["refreshSeconds"] == 0.2
    served.configure()
