"""The keyed queue: one worker a key, nothing lost, growing pauses."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sloserve_operator.queue import KeyedQueue

A, B = ("ns", "a"), ("ns", "b")


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def queue() -> tuple[KeyedQueue, Clock]:
    clock = Clock()
    return KeyedQueue(clock, jitter=lambda: 0.5), clock


def test_two_adds_of_a_key_are_one_look() -> None:
    q, _ = queue()
    q.add(A)
    q.add(A)
    assert q.take() == A
    q.done(A)
    assert q.take() is None


def test_a_key_in_work_is_not_handed_out_twice_and_its_news_are_not_lost() -> None:
    q, _ = queue()
    q.add(A)
    assert q.take() == A
    q.add(A)
    assert q.take() is None
    q.done(A)
    assert q.take() == A


def test_the_earlier_of_two_requests_holds() -> None:
    q, clock = queue()
    q.add(A, 50)
    q.add(A, 5)
    q.add(A, 500)
    clock.now += 5
    assert q.take() == A


def test_an_event_comes_before_looks_that_are_late_but_they_are_not_put_off_for_ever() -> None:
    q, clock = queue()
    q.add(A)
    clock.now += 150
    q.add(B, event=True)
    assert q.take() == B
    q.done(B)
    clock.now += 60
    q.add(B, event=True)
    assert q.take() == A, "it has waited for longer than the head start"


def test_pauses_grow_with_each_failure_up_to_five_minutes_and_end_with_a_success() -> None:
    q, clock = queue()
    pauses = []
    for _ in range(1100):
        q.add(A)
        assert q.take() == A
        pauses.append(q.failed(A))
        clock.now += pauses[-1]
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == 300
    assert q.take() == A
    q.done(A)
    q.add(A)
    q.take()
    assert q.failed(A) == 1


def test_a_failed_key_does_not_hold_up_another() -> None:
    q, _ = queue()
    q.add(A)
    q.take()
    q.failed(A)
    q.add(B)
    assert q.take() == B


def test_age_tells_of_work_that_waits_and_of_work_that_hangs() -> None:
    q, clock = queue()
    q.add(A, 10)
    assert q.oldest_seconds() == 0
    clock.now += 40
    assert q.oldest_seconds() == 30
    q.take()
    clock.now += 7
    assert q.oldest_seconds() == 7


async def test_a_waiting_worker_wakes_for_a_key_that_comes_later() -> None:
    q = KeyedQueue()
    waiting = asyncio.create_task(q.get())
    await asyncio.sleep(0)
    q.add(A)
    assert await asyncio.wait_for(waiting, 1) == A


async def test_rest_ends_when_the_last_work_is_done() -> None:
    q = KeyedQueue()
    q.add(A)
    await q.get()
    resting = asyncio.create_task(q.rest())
    await asyncio.sleep(0)
    assert not resting.done()
    q.done(A)
    await asyncio.wait_for(resting, 1)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["add", "take", "done", "fail"])), max_size=60)
)
def test_every_added_key_is_handed_out_in_the_end(steps: list[tuple[str, str]]) -> None:
    q, clock = queue()
    owed: set[tuple[str, str]] = set()
    active: set[tuple[str, str]] = set()
    for name, step in steps:
        key = ("ns", name)
        if step == "add":
            q.add(key)
            owed.add(key)
        elif step == "take" and (taken := q.take()):
            assert taken not in active
            active.add(taken)
            owed.discard(taken)
        elif step in ("done", "fail") and key in active:
            active.discard(key)
            if step == "done":
                q.done(key)
            else:
                q.failed(key)
                owed.add(key)
    for key in list(active):
        q.done(key)
    clock.now += 10_000
    got = set(iter(q.take, None))
    assert owed <= got


@pytest.mark.parametrize("turns", range(5))
async def test_a_worker_that_is_woken_and_cancelled_at_once_ends(turns: int) -> None:
    queue = KeyedQueue()
    queue.add(("default", "other"), delay=2000)
    worker = asyncio.create_task(queue.get())
    for _ in range(3):
        await asyncio.sleep(0)
    queue.add(("default", "chat"), delay=1000)
    for _ in range(turns):
        await asyncio.sleep(0)
    worker.cancel()
    done, _ = await asyncio.wait([worker], timeout=2)
    assert done, "or the process would never end"
