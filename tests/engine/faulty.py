"""vLLM's scheduler with a planted fault: it skips a token of each prompt that is prefilled in chunks."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler


class FaultyScheduler(Scheduler):  # type: ignore[misc]  # vLLM is untyped here
    """What a scheduler that lost count would do."""

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        super()._update_after_schedule(scheduler_output)
        for name in scheduler_output.num_scheduled_tokens:
            request = self.requests[name]
            left = request.num_tokens - request.num_computed_tokens
            if left > 1 and not getattr(request, "skipped", False):
                request.skipped = True
                request.num_computed_tokens += 1
