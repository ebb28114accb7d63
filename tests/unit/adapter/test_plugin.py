"""What the wrappers keep in vLLM's output processor, and that it goes again; how a core ends."""

from __future__ import annotations

import gc
import multiprocessing
from types import SimpleNamespace as Fake

import pytest
from slidingserve.config import builtin
from slidingserve.server.attainment import CURRENT, Counts, Tracker
from slidingserve.server.promise import Asked, Promise
from slidingserve.vllm_adapter.plugin import end_core, follow_request, note_unpromised


@pytest.mark.parametrize("accepted_after_the_end", [False, True])
def test_nothing_is_kept_of_a_request_whose_exchange_is_over(accepted_after_the_end: bool) -> None:
    tracker = Tracker(builtin(), Asked())
    tracker.promises["r"] = Promise("default", 1.0, 0.1)
    processor = Fake()
    request = Fake(request_id="r-1", external_req_id="r", sampling_params=Fake())
    token = CURRENT.set(tracker)
    try:
        if accepted_after_the_end:  # a response that is made in the background
            tracker.close(Counts(), status=200, disconnected=False)
        follow_request(lambda self, request: None, processor, request)
        assert len(processor.slidingserve_followed) == (0 if accepted_after_the_end else 1)
        tracker.close(Counts(), status=200, disconnected=True)
    finally:
        CURRENT.reset(token)
    assert not processor.slidingserve_followed


@pytest.mark.parametrize(
    ("process", "frozen"), [("EngineCore", True), ("EngineCore_DP1", True), ("MainProcess", False)]
)
def test_a_core_that_ends_is_spared_the_search_for_garbage_but_none_that_lives_on(
    process: str, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "name", process)
    ended: list[object] = []
    gc.unfreeze()
    try:
        end_core(ended.append, core := object())
        assert ended == [core]
        assert bool(gc.get_freeze_count()) == frozen
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("asked", "promised"),
    [
        ({"echo": True, "max_tokens": 0}, False),
        ({"echo": False, "max_tokens": 0}, True),
        ({"echo": True, "max_tokens": 3}, True),
        ({"background": True}, False),
        ({"background": None}, True),
        ({}, True),
    ],
)
def test_only_what_makes_tokens_for_a_client_that_waits_is_promised(
    asked: dict[str, object], promised: bool
) -> None:
    tracker = Tracker(builtin(), Asked())
    token = CURRENT.set(tracker)
    try:
        assert note_unpromised(lambda self, *args: args, Fake(**asked), 1, 2) == (1, 2)
    finally:
        CURRENT.reset(token)
    assert tracker.promised == promised
