"""What the wrappers keep in vLLM's output processor, and that it goes again."""

from __future__ import annotations

from types import SimpleNamespace as Fake

import pytest
from slidingserve.config import builtin
from slidingserve.server.attainment import CURRENT, Counts, Tracker
from slidingserve.server.promise import Asked, Promise
from slidingserve.vllm_adapter.plugin import follow_request


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
