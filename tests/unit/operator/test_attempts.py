"""What the API server did not take is remembered by child: told when it lasts, tried again when it is due."""

from __future__ import annotations

from sloserve_operator.api.conditions import Reason
from sloserve_operator.attempts import LAST_RETRY_SECONDS, REFUSED_SECONDS, TOLD_SECONDS, Attempt, Attempts
from sloserve_operator.kube import KubeError

MEMORY = ("uid", "Service")
ATTEMPT: Attempt = ("hash", 1, None)
BROKEN = KubeError("create Service chat", 500, "failed calling webhook")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_failure_is_told_when_it_has_lasted_and_tried_again_after_growing_pauses() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    pauses = []
    while clock.now < 300:
        assert attempts.known(MEMORY, ATTEMPT) is None, "it is due"
        problem = attempts.failed(MEMORY, ATTEMPT, BROKEN)
        assert problem.reason is Reason.CHILD_NOT_WRITTEN
        assert problem.message == "create Service chat: failed calling webhook"
        assert problem.passing == (clock.now < TOLD_SECONDS)
        pause = attempts.next_try("uid")
        assert pause is not None
        pauses.append(pause)
        clock.now += pause / 2
        known = attempts.known(MEMORY, ATTEMPT)
        assert known is not None
        assert known.passing == (clock.now < TOLD_SECONDS)
        clock.now += pause / 2
    assert pauses[:4] == [1, 2, 4, 8]
    assert max(pauses) == LAST_RETRY_SECONDS
    assert attempts.next_try("another") is None
    attempts.succeeded(MEMORY)
    assert attempts.next_try("uid") is None


def test_another_spec_or_another_live_child_is_tried_at_once() -> None:
    attempts = Attempts(Clock())
    for error in (BROKEN, KubeError("create Service chat", 422, "is wrong")):
        attempts.failed(MEMORY, ATTEMPT, error)
        assert attempts.known(MEMORY, ATTEMPT) is not None
        assert attempts.known(MEMORY, ("other", 1, None)) is None
        assert attempts.known(MEMORY, ("hash", 2, None)) is None
        assert attempts.known(MEMORY, ("hash", 1, "uid-of-a-child")) is None


def test_a_refusal_is_told_at_once_and_asks_for_no_early_look() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    problem = attempts.failed(MEMORY, ATTEMPT, KubeError("create Service chat", 422, "is wrong"))
    assert (problem.reason, problem.passing) == (Reason.CHILD_REFUSED, False)
    assert attempts.next_try("uid") is None
    clock.now = REFUSED_SECONDS
    assert attempts.known(MEMORY, ATTEMPT) is None


def test_a_missing_right_is_asked_for_with_every_look() -> None:
    attempts = Attempts(Clock())
    problem = attempts.failed(MEMORY, ATTEMPT, KubeError("create Service chat", 403, "is forbidden"))
    assert problem.reason is Reason.FORBIDDEN
    assert attempts.known(MEMORY, ATTEMPT) is None
