"""vLLM's scheduler as the method sees it: one row for each request that could compute in the next step.

The first thing of a round, in the engine's loop, so it is kept short: a few numbers are read from each
running request, nothing from one that goes on waiting, and compiled code makes the columns (`assemble`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, compress
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from slidingserve.core.columns import Columns, Ints
from slidingserve.vllm_adapter.assemble import Moment, assemble
from slidingserve.vllm_adapter.held import NONE, Roster, Table

PLANNABLE = ("WAITING", "PREEMPTED")
GRAMMAR = "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"
_facts = attrgetter("num_computed_tokens", "num_output_tokens", "num_output_placeholders")


class Seen(NamedTuple):
    """The state of a scheduler at one moment."""

    columns: Columns
    requests: list[Any]
    """vLLM's requests by row of the columns: running ones, sessions that go on, then waiting ones."""
    table_rows: Ints
    """Their rows in the table."""
    running: int
    """How many of them are in `scheduler.running`."""
    started: int
    """How many hold KV blocks: these, and sessions that go on."""
    evictable: list[int]
    """Running prefills that cannot keep their promise any more: rows, in the scheduler's order."""


class Observer:
    """Looks at one scheduler, round after round."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.stale = False
        """Steps were taken without us: requests may have moved from queue to queue."""
        self._begun, self._waiting = Roster(), Roster()

    def observe(self, scheduler: Any, now: float, throughput: float) -> Seen:
        """The scheduler's state. Requests that wait for something else than compute are left out, and those
        whose last token is being computed already (asynchronous scheduling)."""
        everyone, table = scheduler.requests.values(), self.table
        if self.stale:
            self._look_again(everyone)
        resumed = resuming(scheduler)
        for request in resumed:
            table.renew(request, everyone)  # its next part may promise something else
        begun = [*scheduler.running, *resumed]
        held = self._begun.rows(begun, lambda request: table.hold(request, everyone))
        numbers = np.fromiter(chain.from_iterable(map(_facts, begun)), np.int64, 3 * len(begun))
        waiting, rows = self._queue(scheduler)
        size, pool = scheduler.block_size, scheduler.kv_cache_manager.block_pool
        moment = Moment(
            now=float(now),
            max_tokens=int(scheduler.max_num_scheduled_tokens),
            max_admissions=max(int(scheduler.max_num_active_reqs) - active(scheduler), 0),
            free_kv_tokens=int(pool.get_num_free_blocks() * size),
            throughput=float(throughput),
        )
        made = assemble(numbers.reshape(-1, 3), held, len(scheduler.running), rows, table.held, moment)
        columns = made.columns
        if len(made.kept) < len(begun):
            begun = [begun[index] for index in made.kept.tolist()]
        # What a batch in flight still computes for a request comes back to it: it stays until then.
        evictable = [row for row in made.lost.tolist() if waiting and not begun[row].num_in_flight_tokens]
        if evictable:  # their places are free to those that wait
            blocks = sum(int(columns.cached[row]) // size for row in evictable)
            columns = columns._replace(
                max_admissions=columns.max_admissions + len(evictable),
                free_kv_tokens=columns.free_kv_tokens + blocks * size,
            )
        return Seen(columns, begun + waiting, made.table_rows, made.running, len(begun), evictable)

    def _look_again(self, everyone: Iterable[Any]) -> None:
        for request in everyone:
            self.table.hold(request, everyone)
        self._begun.forget()
        self._waiting.forget()
        self.stale = False

    def _queue(self, scheduler: Any) -> tuple[list[Any], Ints]:
        """The waiting requests that could start, and their rows in the table."""
        waiting = list(scheduler.waiting)
        rows = self._waiting.rows(waiting, lambda request: _plannable(request, scheduler, self.table))
        if scheduler.lora_config:
            rows = rows.copy()
            rows[_blocked_adapters(scheduler, waiting)] = NONE
        keep = rows != NONE
        if keep.all():
            return waiting, rows
        return list(compress(waiting, keep.tolist())), rows[keep]


def _plannable(request: Any, scheduler: Any, table: Table) -> int:
    """The row of a waiting request that was not noted as one yet, `NONE` if it could not start."""
    # vLLM looks after a grammar only when its scan gets that far; a plan may end the scan earlier.
    if request.status.name == GRAMMAR:
        scheduler._handle_blocked_waiting_request(request)
    if request.status.name not in PLANNABLE:
        return NONE
    if request.num_stale_output_tokens and not request.drop_stale_output:
        return NONE  # preempted while its output was in flight: vLLM waits for that
    return table.note(request, scheduler.requests.values())


def adapter(request: Any) -> int:
    """The LoRA adapter of a request, 0 for none."""
    return int(request.lora_request.lora_int_id) if request.lora_request else 0


def adapters_running(scheduler: Any) -> set[int]:
    """The LoRA adapters of all requests that run, in this step or not."""
    return {adapter(request) for request in scheduler.running} - {0}


def _blocked_adapters(scheduler: Any, waiting: list[Any]) -> list[int]:
    """Which of the waiting requests have an adapter for which there is no place now.

    vLLM counts the adapters of the requests that a step schedules. A plan may skip some; were another adapter
    admitted beside them, the next step might have more than the engine holds, which ends the engine.
    """
    used = adapters_running(scheduler)
    if len(used) < scheduler.lora_config.max_loras:
        return []
    allowed = used | {0}
    return [index for index, request in enumerate(waiting) if adapter(request) not in allowed]


def active(scheduler: Any) -> int:
    """Requests that hold a slot, or will before any that we admit."""
    paused: int = scheduler.num_waiting_for_streaming_input
    return len(scheduler.running) + paused + len(resuming(scheduler))


def resuming(scheduler: Any) -> list[Any]:
    """Requests that wait although they hold KV blocks: a streaming session whose next part has come. vLLM
    serves them before all others that wait, so they are planned as running prefills and never capped."""
    if not scheduler.kv_holding_waiting:
        return []
    return [request for request in scheduler.kv_holding_waiting if request.status.name in PLANNABLE]
