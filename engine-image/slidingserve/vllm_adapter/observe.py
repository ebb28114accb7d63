"""vLLM's scheduler as the method sees it: one row for each request that could compute in the next step.

The first thing of a round, in the engine's loop, so it is kept short: a few attribute reads a running
request, one a waiting request, the rest is numpy by row of `held.Table`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slidingserve.core.columns import Columns, Ints
from slidingserve.core.rows import Phase
from slidingserve.vllm_adapter.held import NEVER, Held, Table

PLANNABLE = ("WAITING", "PREEMPTED")
GRAMMAR = "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"


class Seen(NamedTuple):
    """The state of a scheduler at one moment."""

    columns: Columns
    requests: list[Any]
    """vLLM's requests by row of the columns: running ones, sessions that go on, then waiting ones."""
    table_rows: Ints
    """Their rows in the table."""
    running: int
    """How many of them are in `scheduler.running`."""
    holding: int
    """How many after those wait although they hold KV blocks."""
    evictable: list[int]
    """Running prefills that cannot keep their promise any more: rows, in the scheduler's order."""


def observe(scheduler: Any, now: float, throughput: float, table: Table) -> Seen:
    """The scheduler's state. Requests that wait for something else than compute are left out, and those whose
    last token is being computed already (asynchronous scheduling)."""
    requests: list[Any] = []
    rows: list[int] = []
    left: list[int] = []
    cached: list[int] = []
    outputs: list[int] = []
    for request in scheduler.running:
        # Work in flight counts as done: vLLM advances `num_computed_tokens` when it schedules, and output
        # that is still being computed stands in `num_output_placeholders`.
        placeholders = request.num_output_placeholders
        computed = request.num_computed_tokens
        if placeholders and computed + 2 - placeholders >= request.num_prompt_tokens + request.max_tokens:
            continue
        held: Held | None = getattr(request, "slidingserve_held", None)
        if held is None or held.params is not request.sampling_params:
            held = table.hold(request, scheduler.requests.values())
        held.queued = NEVER
        rows.append(held.row)
        requests.append(request)
        left.append(request.num_tokens + placeholders - computed)
        cached.append(computed)
        outputs.append(request.num_output_tokens + placeholders)
    running = len(rows)
    for request in resuming(scheduler):
        rows.append(_held(request, scheduler, table).row)
        requests.append(request)
        left.append(request.num_tokens - request.num_computed_tokens)
        cached.append(request.num_computed_tokens)
        outputs.append(request.num_output_tokens)
    started = len(rows)
    _queue(scheduler, table, requests, rows)
    return _seen(scheduler, now, throughput, table, requests, rows, running, started, (left, cached, outputs))


def _held(request: Any, scheduler: Any, table: Table) -> Held:
    held: Held | None = getattr(request, "slidingserve_held", None)
    if held is None or held.params is not request.sampling_params:
        held = table.hold(request, scheduler.requests.values())
    held.queued = NEVER
    return held


def _queue(scheduler: Any, table: Table, requests: list[Any], rows: list[int]) -> None:
    """Append the waiting requests that could start."""
    epoch = table.epoch
    blocked = _blocked_adapters(scheduler)
    for request in scheduler.waiting:
        held: Held | None = getattr(request, "slidingserve_held", None)
        if held is None or held.queued != epoch:
            held = _plannable(request, scheduler, table)
            if held is None:
                continue
        if blocked is not None and blocked(request):
            continue
        requests.append(request)
        rows.append(held.row)


def _plannable(request: Any, scheduler: Any, table: Table) -> Held | None:
    """The tie of a waiting request that was not noted as one yet, None if it could not start."""
    # vLLM looks after a grammar only when its scan gets that far; a plan may end the scan earlier.
    if request.status.name == GRAMMAR:
        scheduler._handle_blocked_waiting_request(request)
    if request.status.name not in PLANNABLE:
        return None
    if request.num_stale_output_tokens and not request.drop_stale_output:
        return None  # preempted while its output was in flight: vLLM waits for that
    held = _held(request, scheduler, table)
    table.queue(request, held)
    return held


def adapter(request: Any) -> int:
    """The LoRA adapter of a request, 0 for none."""
    return int(request.lora_request.lora_int_id) if request.lora_request else 0


def adapters_running(scheduler: Any) -> set[int]:
    """The LoRA adapters of all requests that run, in this step or not."""
    return {adapter(request) for request in scheduler.running} - {0}


def _blocked_adapters(scheduler: Any) -> Any:
    """Whether a request's adapter has no place now: None without LoRA.

    vLLM counts the adapters of the requests that a step schedules. A plan may skip some; were another adapter
    admitted beside them, the next step might have more than the engine holds, which ends the engine.
    """
    if not scheduler.lora_config:
        return None
    used = adapters_running(scheduler)
    full = len(used) >= scheduler.lora_config.max_loras
    return lambda request: full and adapter(request) not in used | {0}


def _seen(
    scheduler: Any,
    now: float,
    throughput: float,
    table: Table,
    requests: list[Any],
    rows: list[int],
    running: int,
    started: int,
    progress: tuple[list[int], list[int], list[int]],
) -> Seen:
    at = np.array(rows, np.int64)
    waiting = at[started:]
    left, cached, outputs = (np.empty(len(at), np.int64) for _ in progress)
    for column, values in zip((left, cached, outputs), progress, strict=True):
        column[:started] = values
    cached[started:] = table.computed[waiting]
    left[started:] = table.total[waiting] - cached[started:]
    outputs[started:] = table.outputs[waiting]
    remaining = np.maximum(left, 1)
    phase = np.full(len(at), int(Phase.WAITING), np.int8)
    phase[:started] = np.where(
        (outputs[:started] > 0) & (remaining[:started] == 1), int(Phase.DECODE), int(Phase.PREFILL)
    )
    arrival, ttft, tbt = table.arrival[at], table.ttft[at], table.tbt[at]
    slack = arrival + ttft + outputs * tbt - now
    relegated = table.relegated[at]
    free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    admissions = max(scheduler.max_num_active_reqs - active(scheduler), 0)
    evictable: list[int] = []
    if len(at) > started:
        lost = (phase[:running] == int(Phase.PREFILL)) & (relegated[:running] | (slack[:running] <= 0))
        # What a batch in flight still computes for a request comes back to it: it stays until then.
        evictable = [row for row in np.flatnonzero(lost).tolist() if not requests[row].num_in_flight_tokens]
        admissions += len(evictable)
        free += sum(int(cached[row]) // scheduler.block_size for row in evictable)
    columns = Columns(
        now=float(now),
        phase=phase,
        arrival=arrival,
        remaining=remaining,
        cached=cached,
        slack=slack,
        tbt_limit=tbt,
        ttft_limit=ttft,
        safeguard=table.safeguard[at],
        relegated=relegated,
        max_tokens=int(scheduler.max_num_scheduled_tokens),
        max_admissions=int(admissions),
        free_kv_tokens=int(free * scheduler.block_size),
        throughput=float(throughput),
    )
    return Seen(columns, requests, at, running, started - running, evictable)


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
