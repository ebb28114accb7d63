"""Many runs over few processes: each plan says what it needs next; the pool makes it or has it stored.

Plans go on at their own pace; at most one run a process is under way, so that memory stays bounded and an
interrupt loses little.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import numpy as np

from slidingserve.sim.jobs import Job, Summary, execute
from slidingserve.sim.store import Store

Report = Callable[[int, int], None]
"""Called after each run: runs made, runs that should be left."""


class Plan(Protocol):
    """Something that takes runs until it is done."""

    def jobs(self) -> list[Job]:
        """What it needs now, all of it; nothing when it is done."""
        ...

    def take(self, summaries: list[Summary]) -> None:
        """The runs of the last `jobs`, in order."""
        ...

    def remaining(self) -> int:
        """About how many runs it will still ask for, those of `jobs` included."""
        ...


def carry_out(plans: Sequence[Plan], store: Store, workers: int, report: Report | None = None) -> int:
    """Serve all plans; returns how many runs were made (the others were in the store)."""
    desk = _Desk(plans, store)
    made = 0
    if desk.todo:
        _compile(desk.todo[0].job)
        if report is not None:
            report(0, desk.left())
        with processes(min(workers, max(desk.left(), 1))) as executor:
            flight: dict[Future[Summary], _Task] = {}
            while desk.todo or flight:
                while desk.todo and len(flight) < workers:
                    task = desk.todo.popleft()
                    flight[executor.submit(execute, task.job)] = task
                for future in wait(flight, return_when=FIRST_COMPLETED).done:
                    task = flight.pop(future)
                    store.put(task.key, future.result())
                    made += 1
                    desk.arrived(task)
                if report is not None:
                    report(made, desk.left())
    return made


def _compile(job: Job) -> None:
    """Have the compiled code on disk before several processes would each compile it."""
    first = np.zeros(len(job.trace), np.bool_)
    first[0] = True
    execute(replace(job, trace=job.trace.select(first), ttft=job.ttft[:1], tbt=job.tbt[:1]))


class _Task:
    """One run of one plan."""

    def __init__(self, plan: int, job: Job) -> None:
        self.plan, self.job, self.key = plan, job, job.key


class _Desk:
    """Who waits for what."""

    def __init__(self, plans: Sequence[Plan], store: Store) -> None:
        self.todo: deque[_Task] = deque()
        self._plans, self._store = plans, store
        self._wanted: list[list[str]] = [[] for _ in plans]
        for index in range(len(plans)):
            self._ask(index)

    def arrived(self, task: _Task) -> None:
        """A run is in the store: its plan may go on."""
        if all(self._store.get(key) is not None for key in self._wanted[task.plan]):
            self._feed(task.plan)
            self._ask(task.plan)

    def left(self) -> int:
        """Runs still to be made, by the plans' own reckoning."""
        return sum(plan.remaining() for plan in self._plans)

    def _ask(self, index: int) -> None:
        """Ask a plan until it needs something that the store does not have."""
        while jobs := self._plans[index].jobs():
            tasks = [_Task(index, job) for job in jobs]
            self._wanted[index] = [task.key for task in tasks]
            missing = [task for task in tasks if self._store.get(task.key) is None]
            if missing:
                self.todo.extend({task.key: task for task in missing}.values())
                return
            self._feed(index)

    def _feed(self, index: int) -> None:
        found = [self._store.get(key) for key in self._wanted[index]]
        self._plans[index].take([summary for summary in found if summary is not None])


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Processes of our own, started anew (spawn), which leave an interrupt to us and end with us."""
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
    try:
        yield executor
    except BaseException:
        # What is under way is lost, and may be minutes from its end.
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """A worker steps back behind others, and ends with the process that it works for, however that ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
