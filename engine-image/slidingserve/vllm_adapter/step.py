"""From plan to vLLM's own calls: order, budget, caps and admissions around one `super().schedule()`, then
back.

vLLM's `schedule()` is never copied. It serves `running` in order, then `waiting` from the front; a plan is
carried out by what it finds there, and everything is put back afterwards, so that the next step may be
vLLM's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Snapshot
from slidingserve.vllm_adapter.held import Default, running_row, waiting_row

PLANNABLE = ("WAITING", "PREEMPTED")
GRAMMAR = "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"


def observe(scheduler: Any, now: float, throughput: float, default: Default) -> Snapshot:
    """The scheduler's state as a snapshot. Requests that wait for something else than compute are left
    out."""
    rows = [running_row(request, default) for request in (*scheduler.running, *resuming(scheduler))]
    for request in scheduler.waiting:
        # vLLM looks after a grammar only when its scan gets that far; a plan may end the scan earlier.
        if request.status.name == GRAMMAR:
            scheduler._handle_blocked_waiting_request(request)
        if request.status.name in PLANNABLE:
            rows.append(waiting_row(request, default))
    return Snapshot.from_rows(
        rows,
        now=now,
        max_tokens=scheduler.max_num_scheduled_tokens,
        max_admissions=max(scheduler.max_num_active_reqs - active(scheduler), 0),
        free_kv_tokens=scheduler.kv_cache_manager.block_pool.get_num_free_blocks() * scheduler.block_size,
        throughput=throughput,
    )


def active(scheduler: Any) -> int:
    """Requests that hold a slot, or will before any that we admit."""
    paused: int = scheduler.num_waiting_for_streaming_input
    return len(scheduler.running) + paused + len(resuming(scheduler))


def resuming(scheduler: Any) -> list[Any]:
    """Requests that wait although they hold KV blocks: a streaming session whose next part has come. vLLM
    serves them before all others that wait, so they are planned as running prefills and never capped."""
    return [request for request in scheduler.kv_holding_waiting if request.status.name in PLANNABLE]


@dataclass
class Step:
    """What one step changes in the scheduler and must put back. An empty one changes nothing: vLLM's own
    order."""

    caps: dict[str, int] | None = None
    """Most tokens of each request that prefills or waits; one that is absent (a decode) is not limited."""
    _budget: int = 0
    _admissions: int = 0
    _running: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, int] = field(default_factory=dict)

    def apply(self, scheduler: Any, snapshot: Snapshot, plan: Plan) -> None:
        """Carry out `plan`. Raises ValueError, before anything was changed, if it would do nothing for
        ever."""
        tokens = plan.tokens
        decodes = int(snapshot.is_decode.sum())
        if not tokens and len(snapshot):
            raise ValueError("the plan computes nothing although there is work")
        is_decode = dict(zip(snapshot.ids, snapshot.is_decode.tolist(), strict=True))
        rank = {name: place for place, name in enumerate(plan.order)}
        last = len(rank)
        # Decodes first: they are served first and preempted last, since vLLM takes its victim from the end.
        key = {
            name: (0 if decode else 1 if name in tokens else 2, 0 if decode else rank.get(name, last))
            for name, decode in is_decode.items()
        }
        admitted = [name for name in plan.order if name in tokens]
        by_id = {request.request_id: request for request in scheduler.waiting}
        first = [by_id[name] for name in admitted if name in by_id]

        self._budget, self._admissions = scheduler.max_num_scheduled_tokens, scheduler.max_num_active_reqs
        self._running = {request.request_id: place for place, request in enumerate(scheduler.running)}
        self._waiting = {name: place for place, name in enumerate(by_id)}
        free = {request.request_id for request in resuming(scheduler)}
        self.caps = {n: tokens.get(n, 0) for n, decode in is_decode.items() if not decode and n not in free}
        # From here on `restore` undoes what was done, also half of it.
        scheduler.running.sort(key=lambda request: key[request.request_id])
        if first:
            chosen = set(map(id, first))
            rest = [request for request in scheduler.waiting if id(request) not in chosen]
            scheduler.waiting.clear()
            scheduler.waiting.extend(first)
            scheduler.waiting.extend(rest)
        scheduler.max_num_scheduled_tokens = min(max(plan.budget, min(decodes, self._budget)), self._budget)
        scheduler.max_num_active_reqs = min(active(scheduler) + len(first), self._admissions)

    def restore(self, scheduler: Any) -> None:
        """Put limits and orders back; requests that were admitted or preempted meanwhile keep their new
        places."""
        if self.caps is None:
            return
        self.caps = None
        scheduler.max_num_scheduled_tokens = self._budget
        scheduler.max_num_active_reqs = self._admissions
        end = len(self._running)
        scheduler.running.sort(key=lambda request: self._running.get(request.request_id, end))
        # Preempted requests were put in front and have no old place: they stay in front.
        waiting = sorted(scheduler.waiting, key=lambda request: self._waiting.get(request.request_id, -1))
        scheduler.waiting.clear()
        scheduler.waiting.extend(waiting)
