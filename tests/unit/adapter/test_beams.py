"""A beam search is one request to its client, whatever vLLM makes of it."""

from __future__ import annotations

import pytest
from slidingserve.config import builtin
from slidingserve.server.attainment import Tracker
from slidingserve.server.promise import Asked, Promise
from slidingserve.vllm_adapter import beams

PROMISE = Promise("default", ttft=1.0, tbt=0.1)


@pytest.fixture
def tracker() -> Tracker:
    return Tracker(builtin(), Asked())


def step(tracker: Tracker, number: int, prompt: str = "cmpl-a-0", width: int = 2) -> None:
    """vLLM's requests of one step; each makes a token."""
    for beam in range(width if number else 1):
        sequence = beams.sequence(tracker, PROMISE, f"{prompt}-{number:016x}-beam-{beam}")
        if sequence is not None:
            tracker.generated(sequence, 1)


def test_the_steps_of_a_prompt_are_the_tokens_of_one_sequence(tracker: Tracker) -> None:
    for number in range(40):
        step(tracker, number)
    assert [sequence.tokens for sequence in tracker.sequences] == [40]


def test_each_prompt_has_its_own(tracker: Tracker) -> None:
    for number in range(3):
        step(tracker, number)
        step(tracker, number, "cmpl-a-1")
    assert [sequence.tokens for sequence in tracker.sequences] == [3, 3]


def test_a_step_is_due_when_its_token_is(tracker: Tracker) -> None:
    for number in range(5):
        due = beams.due(tracker, PROMISE, f"cmpl-a-0-{number:016x}-beam-1")
        assert due.ttft == pytest.approx(1.0 + 0.1 * number)
        step(tracker, number)
    assert beams.due(None, PROMISE, "cmpl-a-0") == PROMISE


@pytest.mark.parametrize("name", ["cmpl-a-0", "chatcmpl-beam-3", f"chatcmpl-x-{7:016x}-beam-3"])
def test_a_client_that_names_its_request_like_a_beam_is_counted_all_the_same(
    tracker: Tracker, name: str
) -> None:
    assert beams.sequence(tracker, PROMISE, name) is not None
