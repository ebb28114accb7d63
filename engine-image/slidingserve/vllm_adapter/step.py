"""From decision to vLLM's own calls: order, budget, caps and admissions around one `super().schedule()`, then
back.

vLLM's `schedule()` is never copied. It serves `running` in order, then `waiting` from the front; a decision
is carried out by what it finds there, and everything is put back afterwards, so that the next step may be
vLLM's own. What is not undone: a request that can no longer keep its promise may have been preempted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from slidingserve.core.batch import batch_of
from slidingserve.core.columns import Decision, Ints
from slidingserve.predictor.features import Features
from slidingserve.vllm_adapter.assemble import arrange
from slidingserve.vllm_adapter.observe import Seen, active, adapter, adapters_running

UNLIMITED = 1 << 30


@dataclass
class Step:
    """What one step changes in the scheduler and must put back. An empty one changes nothing: vLLM's own
    order."""

    tokens: dict[str, int] | None = None
    """Most tokens of each request in this step; one that is absent gets none. None: nothing is limited."""
    _made: tuple[Seen, dict[str, int], Ints, list[int]] | None = None
    """What was decided: the state, tokens by request and by row, rows to admit."""
    _budget: int = 0
    _admissions: int = 0
    _running: list[Any] = field(default_factory=list)
    _waiting: list[Any] = field(default_factory=list)
    _first: int = 0

    def apply(self, scheduler: Any, seen: Seen, decision: Decision) -> None:
        """Carry out `decision`. Raises ValueError, before anything was changed, if it would do nothing for
        ever."""
        tokens, requests = decision.tokens, seen.requests
        made = arrange(
            seen.columns.phase, tokens, decision.order, decision.relegated, seen.running, seen.started
        )
        if requests and not len(made.served):
            raise ValueError("the plan computes nothing although there is work")
        admitted = _admissible(scheduler, seen, made.admitted.tolist())
        evicted = _make_room(scheduler, seen, admitted, decision)
        if evicted:
            tokens = tokens.copy()
            tokens[evicted] = 0
        self._begin(scheduler)
        # From here on `restore` undoes what was done, also half of it.
        counts = zip(made.served.tolist(), tokens[made.served].tolist(), strict=True)
        self.tokens = {requests[row].request_id: count for row, count in counts if count}
        self._made = seen, self.tokens, tokens, admitted
        for row in range(seen.running, seen.started):
            self.tokens[requests[row].request_id] = UNLIMITED
        _sort_running(scheduler, seen, made.running.tolist(), set(evicted))
        self._put_first(scheduler, [requests[row] for row in admitted])
        scheduler.max_num_scheduled_tokens = min(int(decision.budget), self._budget)
        scheduler.max_num_active_reqs = min(active(scheduler) + len(admitted), self._admissions)

    def _begin(self, scheduler: Any) -> None:
        self._budget, self._admissions = scheduler.max_num_scheduled_tokens, scheduler.max_num_active_reqs
        self._running, self._waiting = list(scheduler.running), list(scheduler.waiting)
        self._first = 0

    def _put_first(self, scheduler: Any, first: list[Any]) -> None:
        if first:
            chosen = set(map(id, first))
            rest = [request for request in self._waiting if id(request) not in chosen]
            scheduler.waiting.clear()
            scheduler.waiting.extend(first)
            scheduler.waiting.extend(rest)
            self._first = len(first)

    def restore(self, scheduler: Any) -> None:
        """Put limits and orders back; requests that were admitted or preempted meanwhile keep their new
        places."""
        if self.tokens is None:
            return
        self.tokens = None
        scheduler.max_num_scheduled_tokens = self._budget
        scheduler.max_num_active_reqs = self._admissions
        running, before = scheduler.running, self._running
        if len(running) >= len(before):  # none was preempted: vLLM then admits none
            running[: len(before)] = before
            if len(scheduler.waiting) == len(self._waiting) - self._first:
                return  # all that stood in front were admitted, and the others never moved
        else:
            kept = set(map(id, running))
            running[:] = [request for request in before if id(request) in kept]
        known, now = set(map(id, self._waiting)), list(scheduler.waiting)
        present = set(map(id, now))
        scheduler.waiting.clear()
        # Preempted requests were put in front and have no old place: they stay in front.
        scheduler.waiting.extend([request for request in now if id(request) not in known])
        scheduler.waiting.extend([request for request in self._waiting if id(request) in present])

    def features(self, counts: dict[str, int]) -> Features | None:
        """The batch as the predictor sees it, if vLLM made what was decided; None if it did not.

        `counts`: tokens by request, as vLLM scheduled them; `num_computed_tokens` already has them.
        """
        if self._made is None or counts != self._made[1]:
            return None
        seen, _, tokens, admitted = self._made
        for row in admitted:  # only vLLM knows what the prefix cache had of them
            seen.columns.cached[row] = seen.requests[row].num_computed_tokens - tokens[row]
        return batch_of(seen.columns, tokens)


def _sort_running(scheduler: Any, seen: Seen, rows: list[int], evicted: set[int]) -> None:
    ordered = [seen.requests[row] for row in rows if row not in evicted]
    if len(ordered) < len(scheduler.running):
        # Requests whose last token is being computed are in no plan. They end by themselves.
        planned = set(map(id, ordered))
        ordered = [request for request in scheduler.running if id(request) not in planned] + ordered
    scheduler.running[:] = ordered


def _admissible(scheduler: Any, seen: Seen, admitted: list[int]) -> list[int]:
    """Those of the requests to admit whose LoRA adapters have a place together with the running ones'."""
    if not scheduler.lora_config:
        return admitted
    used, kept = adapters_running(scheduler), []
    for row in admitted:
        mine = {adapter(seen.requests[row])} - {0}
        if len(used | mine) <= scheduler.lora_config.max_loras:
            used |= mine
            kept.append(row)
    return kept


def _make_room(scheduler: Any, seen: Seen, admitted: list[int], decision: Decision) -> list[int]:
    """Preempt running prefills that cannot keep their promise where they stand in the way of requests to
    admit that rank before them. Returns their rows.

    Such a request computes only when nothing else can, and would hold a slot and its KV blocks meanwhile. It
    is computed again later, from the start, or from what the prefix cache still has.
    """
    if not admitted or not seen.evictable:
        return []
    rank = {row: place for place, row in enumerate(decision.order.tolist())}
    victims = sorted(seen.evictable, key=lambda row: rank.get(row, -1))  # the last goes first
    last = rank[admitted[-1]]
    pool, size = scheduler.kv_cache_manager.block_pool, scheduler.block_size
    tokens, left = decision.tokens.tolist(), seen.columns.remaining
    # A block more for each: what a request has in its last block is not known here.
    blocks = sum(tokens[row] // size + 1 for row in range(seen.started) if tokens[row])
    blocks += sum(int(left[row]) // size + 1 for row in admitted)
    evicted: list[int] = []
    while victims and rank.get(victims[-1], -1) > last:
        slots = scheduler.max_num_active_reqs - active(scheduler)
        if slots >= len(admitted) and pool.get_num_free_blocks() >= blocks:
            break
        row = victims.pop()
        if tokens[row]:
            blocks -= tokens[row] // size + 1
        scheduler.running.remove(seen.requests[row])
        scheduler._preempt_request(seen.requests[row], time.monotonic())
        evicted.append(row)
    return evicted
