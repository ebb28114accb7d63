"""Too little room in vLLM's real engine core: slots, KV cache, requests that are lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.loads import Counted, Make, preempted


@pytest.mark.parametrize(
    ("asynchronous", "kv_bytes"),
    [(False, 1 << 26), (True, 1 << 26), (False, (1 << 21) + (1 << 17))],
    ids=["slots", "slots, asynchronous", "KV cache"],
)
def test_prefills_that_are_lost_and_half_done_starve_nobody_of_slots_or_kv_cache(
    make: Make, asynchronous: bool, kv_bytes: int
) -> None:
    """Eight late prompts, begun, take every slot (or two of them the KV cache). Then one comes that can be on
    time."""
    core = make(asynchronous=asynchronous, kv_bytes=kv_bytes, margin=1)
    victims = preempted(core)
    lost = [f"lost{number}" for number in range(8)]
    for name in lost:
        core.add(name, 900, output=2, ttft_s=0.001, tbt_s=10.0)
        core.step()
    held = {request.request_id for request in core.scheduler.running}
    core.add("good", 700, output=2, ttft_s=60.0, tbt_s=10.0)
    before = len(core.steps)
    while "good" not in core.tokens:
        core.step()
    served = [step for step in core.steps[before:] if "good" in step]
    assert len(core.steps) - before <= len(served) + 3, "it was served in each step from the next one on"
    assert core.scheduler.requests.keys() >= held - {"good"} - set(core.tokens)
    core.drain()
    assert core.tokens == dict.fromkeys([*lost, "good"], 2), "those that are late end all the same"
    assert set(victims) <= set(lost)


def test_a_relegated_request_stays_relegated_until_it_ends(make: Make) -> None:
    core = make(policy="qoserve", chunk={"maxTokens": 64})
    seen: list[set[str]] = []
    decide = core.agent.force.plan

    def watched(columns: Any, weights: Any, settings: Any) -> Any:
        decision = decide(columns, weights, settings)
        seen.append(set(columns.relegated.nonzero()[0].tolist()))
        return decision

    core.agent.force = core.agent.force._replace(plan=watched)
    core.add("hopeless", 2000, output=2, ttft_s=0.02, tbt_s=10.0)
    for number in range(4):
        core.add(f"r{number}", 200, output=2, ttft_s=20.0, tbt_s=10.0)
    core.drain()
    relegated = [bool(rows) for rows in seen]
    assert any(relegated)
    assert relegated == sorted(relegated), "once relegated, it is in every round after"
    assert core.tokens["hopeless"] == 2


def test_a_full_kv_cache_preempts_and_still_serves_all(make: Make, counted: Counted) -> None:
    core = make(kv_bytes=(1 << 21) + (1 << 16))
    counted("planner_errors_total", engine="0")
    victims = preempted(core)
    for number in range(6):
        core.add(f"r{number}", 300, output=200, ttft_s=5.0, tbt_s=0.5)
    core.drain(5000)
    assert victims
    assert core.tokens == {f"r{number}": 200 for number in range(6)}
    assert counted("planner_errors_total", engine="0") == 0


def test_a_prompt_that_vllm_will_not_admit_yet_does_not_stop_all_others(make: Make) -> None:
    core = make(kv_bytes=(1 << 21) + (1 << 16), watermark=0.8)
    core.add("long", 1500, ttft_s=50.0, tbt_s=1.0)
    core.step()
    core.add("short", 300, ttft_s=50.0, tbt_s=1.0)
    core.drain(100)
    assert core.tokens == {"long": 4, "short": 4}
    assert {} in core.steps, "the short one was planned first, and vLLM refused it"
