"""The paper's Figures 1 and 2 as states and plans, with their numbers as far as those agree."""

from __future__ import annotations

import pytest
from slidingserve import policies
from slidingserve.core.chunker import Windows, chunk
from slidingserve.core.forwarder import pred, pred_after, time_to_budget
from slidingserve.policies import PolicySettings
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.states import queue, state, waiting
from tests.unit.engine.tiny_engine import Request, TinyEngine

CHUNK_COST = 0.025 / (900**2 - 700**2)
FIGURE_1 = LatencyModel(Weights(0.1 - 900**2 * CHUNK_COST, (0.0, CHUNK_COST, 0.0, 0.0, 0.0, 0.0, 0.0)))
"""The curve a + b c squared through two points of Figure 1: 900 tokens in 100 ms, 700 in 75 ms."""

FIGURE_2 = LatencyModel(Weights(0.020, (0.0, 0.0, 0.0, 0.0, 0.0, 1e-4, 0.0)))
"""20 ms a step and 0.1 ms a token: 750 tokens take the 95 ms of the original batch, 400 the rebuilt 60."""


def test_figure_1_two_even_steps_do_more_than_a_greedy_one_and_what_it_leaves() -> None:
    """The figure: greedily 900 tokens in 100 ms and 260 in the 50 ms that are left, 1,160; evenly 700 and
    700, each in 75 ms, 1,400. Its text: "100 more tokens". 240 more are not 100 more. With the two long
    steps as given the short one holds 412, so that the even split does 88 more: the text fits, 260 does not.
    """
    _, one_prompt = queue(FIGURE_1, [500], [(5000, 0)])
    no_decodes = 1  # the decode counts as a token of the budget
    greedy = time_to_budget(one_prompt, 0.1 + 1e-9, 4096) - no_decodes
    rest = time_to_budget(one_prompt, 0.05 + 1e-9, 4096) - no_decodes
    even = time_to_budget(one_prompt, 0.075 + 1e-9, 4096) - no_decodes
    assert (greedy, rest, even) == (900, 412, 700)
    assert 2 * even - (greedy + rest) == 88


def test_figure_1_algorithm_1_does_the_same_tokens_in_less_time() -> None:
    """As printed it holds B_sum = B_cur + B_next fixed and minimises time, where the figure holds the time
    fixed and does more tokens: both come from the split being even."""
    _, one_prompt = queue(FIGURE_1, [500], [(5000, 0)])
    sliding = PolicySettings(margin=1.0).compiled()
    windows = Windows(current=0.1 + 1e-9, following=0.05 + 1e-9)
    total = 901 + 413
    made = chunk(one_prompt, windows, 4096, sliding)
    assert made.budget == pytest.approx(total / 2, abs=15)
    seconds = pred(one_prompt, made.budget) + pred_after(one_prompt, made.budget, total - made.budget)
    assert seconds < 0.141
    assert pred(one_prompt, 901) + pred_after(one_prompt, 901, 413) == pytest.approx(0.150, abs=1e-4)
    single = PolicySettings(margin=1.0, window="single").compiled()
    assert chunk(one_prompt, windows, 4096, single).budget == 901, "single-step greedy fills the window"


SIZES = {"r1": 200, "r2": 250, "r3": 200, "r4": 100}
SLACK = {"r1": 0.0601, "r2": 0.080, "r3": 0.0601, "r4": 0.150}


@pytest.mark.parametrize("quantum", [1, 16, 100])
def test_figure_2_the_rebuilt_batch_saves_r1_and_r3(quantum: int) -> None:
    """The full batch of 95 ms is too long for r1, r2 and r3 (60, 80, 60 ms); r1 and r3 alone take 60 ms."""
    snapshot = state(*[waiting(name, size, slack=SLACK[name]) for name, size in SIZES.items()])
    exact = PolicySettings(margin=1.0, quantum=quantum)
    made = policies.get("slidingserve_paper").plan(snapshot, FIGURE_2, exact)
    assert made is not None
    assert (made.branch, made.tokens) == ("constructor", {"r1": 200, "r3": 200})
    assert made.predicted_seconds == pytest.approx(0.060)
    full = policies.get("slidingserve_paper").plan(
        snapshot, FIGURE_2, PolicySettings(margin=1.0, constructor=False)
    )
    assert full is not None
    assert full.predicted_seconds == pytest.approx(0.095), "the original large batch"


@pytest.mark.parametrize(("constructor", "late"), [(True, ["r2"]), (False, ["r1", "r2", "r3"])])
def test_figure_2_only_r2_violates_and_r4_makes_it_in_a_later_step(
    constructor: bool, late: list[str]
) -> None:
    requests = [Request(name, 0.0, size, 1, SLACK[name], 0.05) for name, size in SIZES.items()]
    exact = PolicySettings(margin=1.0, constructor=constructor)
    engine = TinyEngine(requests, model=FIGURE_2, believed=FIGURE_2, max_tokens=2048, chosen=exact)
    engine.run(20)
    assert [request.name for request in engine.requests if request.late] == late
