"""What the API server did not take of a child, and when to ask again. Used by `children`.

Each child has its own pauses, so that one that cannot be written costs the others, and the status, nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import structlog

from . import backoff
from .api.conditions import Reason
from .kube import KubeError
from .status import Problem

REFUSED_SECONDS = 300.0
"""After which what was refused is tried once more: an admission policy may have changed."""
FORBIDDEN_SECONDS = 2.0
"""So that quick looks at engines do not become as many requests."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 300.0
Attempt = tuple[str, int, str | None]
"""What was asked for: hash of the child, generation of the resource, uid of the live child."""
Child = tuple[str, str, str]
"""Uid of the resource, kind and name of the child."""
log = structlog.stdlib.get_logger("sloserve.children")


@dataclass(frozen=True)
class Trouble:
    """`problem`: what to say of it; `count`: failures in a row; `due`: when it is tried again."""

    attempt: Attempt
    problem: Problem
    due: float
    count: int = 1


class Troubles:
    """By child. A refusal is tried again once anything of the attempt is another: a changed spec, or a child
    that somebody deleted, may be what the server takes. A failure keeps its pauses, whatever the attempt."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Child, Trouble] = {}

    def waits(self, child: Child, attempt: Attempt) -> Problem | None:
        """What is known to stand in the way, while it is not to be tried again."""
        known = self._known.get(child)
        if known is None or self._clock() >= known.due:
            return None
        same = known.attempt == attempt or known.problem.reason is Reason.CHILD_NOT_WRITTEN
        return replace(known.problem, server="") if same else None

    def failed(self, child: Child, attempt: Attempt, error: KubeError) -> Problem:
        """Remember it. Returns: what to say."""
        before = self._known.get(child)
        count = before.count + 1 if before else 1
        reason = _reason(error)
        text = f"{error} (no answer)" if error.status == 0 else str(error)
        first = reason is Reason.CHILD_NOT_WRITTEN and count == 1
        server: Literal["", "silent", "busy"] = "busy" if error.retry_after else ""
        problem = Problem(reason, text, first, server or ("silent" if error.status == 0 else ""))
        pause = {Reason.CHILD_REFUSED: REFUSED_SECONDS, Reason.CHILD_NOT_WRITTEN: 0.0}.get(
            reason, FORBIDDEN_SECONDS
        )
        if reason is Reason.CHILD_NOT_WRITTEN:
            pause = backoff.pause(count - 1, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
            # Once the server's patience is back, what it takes goes first.
            pause = max(pause, error.retry_after + FIRST_RETRY_SECONDS if error.retry_after else 0.0)
        self._known[child] = Trouble(attempt, problem, self._clock() + pause, count)
        if before is None or before.problem.message != text:
            log.warning("child not written", kind=child[1], child=child[2], error=text, again_in=pause)
        return problem

    def over(self, child: Child) -> None:
        """The server took it."""
        if self._known.pop(child, None):
            log.info("child written after failures", kind=child[1], child=child[2])

    def next_try(self, uid: str) -> float | None:
        """Seconds until a child of this resource that failed is due; None if none is."""
        due = [
            known.due
            for child, known in self._known.items()
            if child[0] == uid and known.problem.reason is Reason.CHILD_NOT_WRITTEN
        ]
        return max(0.0, min(due) - self._clock()) if due else None

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        for child in [child for child in self._known if child[0] == uid]:
            del self._known[child]


def _reason(error: KubeError) -> Reason:
    if error.status == 403:
        return Reason.QUOTA_EXCEEDED if "exceeded quota" in error.message else Reason.FORBIDDEN
    return Reason.CHILD_REFUSED if error.refused else Reason.CHILD_NOT_WRITTEN
