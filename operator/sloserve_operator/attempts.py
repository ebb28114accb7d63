"""What the API server did not take of a child, and when it is asked again. Used by `children`.

One child that cannot be written holds up nothing else, so its failure is remembered here and not raised.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from . import backoff
from .api.conditions import Reason
from .kube import KubeError
from .status import Problem

TOLD_SECONDS = 15.0
"""How long a write has failed before the status says so: the API server restarts, too."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 60.0
REFUSED_SECONDS = 300.0
"""After which what was refused is tried once more: an admission policy may have changed."""
Memory = tuple[str, str]
"""Uid of the resource, kind of the child."""
Attempt = tuple[str, int, str | None]
"""What was asked for: hash of the child, generation of the resource, uid of the live child. Once anything of
it is another, it is tried at once: a changed spec, or a child that somebody deleted, may be what it takes."""
log = structlog.stdlib.get_logger("sloserve.attempts")


@dataclass(frozen=True)
class _Failed:
    """The last failure of a child, in a row of `count` since `since`; tried again at `again`."""

    attempt: Attempt
    problem: Problem
    since: float
    count: int
    again: float


class Attempts:
    """Memory of failed writes; never needed, and lost at a start."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: dict[Memory, _Failed] = {}

    def known(self, memory: Memory, attempt: Attempt) -> Problem | None:
        """What stands in the way while the same attempt is not due again."""
        found = self._failed.get(memory)
        if found is None or found.attempt != attempt or self._clock() >= found.again:
            return None
        return self._told(found)

    def failed(self, memory: Memory, attempt: Attempt, error: KubeError) -> Problem:
        """Take a failure in. Returns: what stands in the way."""
        now, before = self._clock(), self._failed.get(memory)
        if error.status == 403:
            # Looked at again with every pass: rights and quotas change without a word to us.
            quota = "exceeded quota" in error.message
            return Problem(Reason.QUOTA_EXCEEDED if quota else Reason.FORBIDDEN, str(error))
        if error.refused:
            problem, pause, count = Problem(Reason.CHILD_REFUSED, str(error)), REFUSED_SECONDS, 0
        else:
            problem = Problem(Reason.CHILD_NOT_WRITTEN, str(error), unanswered=not error.status)
            count = before.count + 1 if before else 1
            pause = max(error.retry_after, backoff.pause(count - 1, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS))
            log.warning("write failed", kind=memory[1], error=str(error), again_in=round(pause, 1))
        since = before.since if before and before.count else now
        found = self._failed[memory] = _Failed(attempt, problem, since, count, now + pause)
        return self._told(found)

    def _told(self, found: _Failed) -> Problem:
        young = bool(found.count) and self._clock() - found.since < TOLD_SECONDS
        return replace(found.problem, passing=young)

    def succeeded(self, memory: Memory) -> None:
        """The child is as it should be."""
        self._failed.pop(memory, None)

    def next_try(self, uid: str) -> float | None:
        """Seconds until a write that failed is due again, or None. What was refused waits for a look."""
        times = [found.again for (owner, _), found in self._failed.items() if owner == uid and found.count]
        return max(0.0, min(times) - self._clock()) if times else None

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        for memory in [memory for memory in self._failed if memory[0] == uid]:
            del self._failed[memory]
