"""The baselines, each by what makes it itself."""

from __future__ import annotations

from typing import Any

import pytest
from slidingserve import policies
from slidingserve.core.columns import REASONS, Decision
from slidingserve.core.snapshot import Row
from slidingserve.policies import PolicySettings
from slidingserve.policies.dispatch import decide
from slidingserve.policies.qoserve import grid_total
from slidingserve.predictor.features import batch_features

from tests.unit.engine.states import MODEL, decoding, prefilling, state, waiting


def decided(policy: str, *rows: Row, options: dict[str, Any] | None = None, **engine: Any) -> Decision:
    chosen = PolicySettings(**(options or {})).compiled()
    return decide(policies.policy_id(policy), state(*rows, **engine).columns, MODEL.matrix, chosen)


def tokens(policy: str, *rows: Row, **rest: Any) -> dict[str, int]:
    counts = decided(policy, *rows, **rest).tokens.tolist()
    return {row.id: count for row, count in zip(rows, counts, strict=True) if count}


def test_vllm_serves_running_requests_in_order_then_waiting_ones_until_the_budget_is_spent() -> None:
    rows = (prefilling("p", 300), decoding("d"), waiting("w", 100), waiting("v", 900), waiting("x", 5))
    assert tokens("fcfs", *rows, max_tokens=512) == {"p": 300, "d": 1, "w": 100, "v": 111}
    assert tokens("fcfs", *rows, max_tokens=512, max_admissions=1) == {"p": 300, "d": 1, "w": 100}
    assert tokens("fcfs", *rows, options={"budget": 300}) == {"p": 300}


def test_vllm_leaves_a_shortage_of_cache_to_the_engine() -> None:
    assert tokens("fcfs", waiting("w", 100), free_kv_tokens=10) == {"w": 100}


def test_sarathi_edf_fills_a_fixed_budget_by_deadline_and_overtakes_a_started_prefill() -> None:
    rows = (decoding("d"), prefilling("started", 400, slack=3.0), waiting("due", 200, slack=1.0))
    assert tokens("sarathi_edf", *rows) == {"d": 1, "due": 200, "started": 55}
    assert tokens("sarathi_edf", *rows, options={"budget": 128}) == {"d": 1, "due": 127}


def test_sarathi_edf_goes_on_with_requests_that_are_late() -> None:
    rows = (waiting("late", 1000, slack=-1.0), waiting("due", 100, slack=1.0))
    assert tokens("sarathi_edf", *rows) == {"late": 256}


def test_p_pas_caps_the_step_when_prefills_press_on_decodes() -> None:
    rows = [decoding("d"), prefilling("p", 3000)]
    assert tokens("ppas", *rows) == {"d": 1, "p": 2047}
    rows.append(waiting("w", 10))
    assert tokens("ppas", *rows) == {"d": 1, "p": 511}
    assert tokens("ppas", *rows, options={"pressure_cap": 100}) == {"d": 1, "p": 99}
    assert tokens("ppas", *rows[1:]) == {"p": 2048}, "no decode to press on"


def test_p_pas_plus_caps_one_very_long_prefill_beside_two_decodes() -> None:
    one = (decoding("d"), decoding("e"), prefilling("p", 70_000))
    assert tokens("ppas", *one) == {"d": 1, "e": 1, "p": 510}
    assert tokens("ppas", *one, options={"large_prefill": 80_000}) == {"d": 1, "e": 1, "p": 2046}


# --- QoServe ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "limit", "options", "totals"),
    [
        (10**6, 4096, {}, [128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2552]),
        (10**6, 2048, {}, [128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048]),
        (31_999, 4096, {}, [128, 256, 384, 512]),
        (10**6, 100, {}, [100]),
        (10**6, 256, {"grid": "rescaled"}, [32, 64, 128, 192, 256]),
        (10**6, 100, {"grid": "rescaled", "grid_smallest": 16}, [16, 32, 64, 96, 100]),
        (31_999, 4096, {"grid": "rescaled", "grid_smallest": 128}, [128, 256, 384, 512]),
    ],
)
def test_the_grid_is_the_artifacts_or_rescaled(
    free: int, limit: int, options: dict[str, Any], totals: list[int]
) -> None:
    chosen = PolicySettings(**options).compiled()
    found = [grid_total(place, free, limit, chosen) for place in range(len(totals) + 2)]
    assert found == [*totals, totals[-1], totals[-1]]


def test_qoserve_takes_the_largest_total_that_the_tightest_decode_allows() -> None:
    def time(chunk: int) -> float:
        return 1.2 * MODEL.predict(batch_features([519], [(chunk, 0)]))

    rows = (decoding("d", slack=time(511) + 1e-6), waiting("w", 5000))
    assert tokens("qoserve", *rows) == {"d": 1, "w": 511}
    rows = (decoding("d", slack=time(511) - 1e-6), waiting("w", 5000))
    assert tokens("qoserve", *rows) == {"d": 1, "w": 255}
    assert tokens("qoserve", *rows, options={"pred_threshold": 1.0}) == {"d": 1, "w": 511}


def test_qoserve_never_takes_less_than_the_smallest_total() -> None:
    rows = (decoding("d", slack=0.001), waiting("w", 5000))
    assert tokens("qoserve", *rows) == {"d": 1, "w": 127}
    assert tokens("qoserve", *rows, options={"grid": "rescaled"}) == {"d": 1, "w": 31}


def test_qoserve_fills_the_batch_without_decodes_and_ignores_late_ones() -> None:
    assert tokens("qoserve", waiting("w", 5000)) == {"w": 2048}
    rows = (decoding("late", slack=-0.1), waiting("w", 5000))
    assert tokens("qoserve", *rows) == {"late": 1, "w": 2047}
    assert tokens("qoserve", *rows, options={"safe_decodes": "all"}) == {"late": 1, "w": 127}


def test_the_hybrid_priority_lies_between_deadline_and_shortest_first() -> None:
    rows = (waiting("due", 1000, slack=2.0), waiting("short", 100, slack=5.0))
    order = [decided("qoserve", *rows, options={"alpha": alpha}).order.tolist() for alpha in (0.0, 0.2, 0.8)]
    assert order == [[0, 1], [0, 1], [1, 0]], "5 - 2 s against 900 tokens: level at alpha 1/3"


def test_a_request_that_cannot_make_its_deadline_is_relegated_and_served_last() -> None:
    rows = (waiting("hopeless", 2000, slack=0.1), waiting("fine", 1000, slack=50.0))
    made = decided("qoserve", *rows, options={"alpha": 0.0})
    assert made.relegated.tolist() == [True, False]
    assert made.order.tolist() == [1, 0]
    assert made.tokens.tolist() == [1048, 1000]
    kept = decided("qoserve", *rows, options={"alpha": 0.0, "relegation": False})
    assert kept.tokens.tolist() == [2000, 48]


def test_only_requests_that_come_up_and_hold_no_cache_are_relegated() -> None:
    started = decided("qoserve", prefilling("hopeless", 2000, slack=0.1))
    assert not started.relegated.any()
    rows = (waiting("first", 3000, slack=1.0), waiting("hopeless", 20_000, slack=2.0))
    assert not decided("qoserve", *rows, options={"alpha": 0.0}).relegated.any(), "the batch ends before it"
    reached = decided("qoserve", *rows, options={"alpha": 0.0}, max_tokens=4096)
    assert reached.relegated.tolist() == [False, False], "128, 256, ... 2,552 ends before it too"
    short = (waiting("first", 300, slack=1.0), rows[1])
    assert decided("qoserve", *short, options={"alpha": 0.0}).relegated.tolist() == [False, True]


def test_a_relegation_stays_when_the_engine_becomes_faster() -> None:
    rows = (waiting("w", 10, slack=50.0, relegated=True), waiting("v", 2000, slack=99.0))
    made = decided("qoserve", *rows)
    assert made.relegated.tolist() == [True, False]
    assert made.order.tolist() == [1, 0]


def test_before_any_throughput_was_measured_it_is_the_artifacts() -> None:
    """8,500 tokens a second: 850 tokens take 0.1 s."""
    just = waiting("w", 850, slack=0.1001)
    assert not decided("qoserve", just, throughput=0.0).relegated.any()
    assert decided("qoserve", just._replace(ttft_limit=0.0999), throughput=0.0).relegated.all()


def test_the_policies_say_why() -> None:
    rows = (decoding("d"), waiting("w", 5000))
    assert REASONS[decided("qoserve", *rows).reason].startswith("the largest chunk of the grid")
    assert REASONS[decided("sarathi_edf", *rows).reason] == "a fixed budget, in order"
    assert "pressure" in REASONS[decided("ppas", *rows, waiting("v", 5)).reason]
