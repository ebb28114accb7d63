"""Replay against a scripted server: what goes out, and that every failure comes back as a row."""

from __future__ import annotations

import resource
import signal

import numpy as np
import pytest
from slidingserve import workloads
from slidingserve.bench import workload
from slidingserve.bench.client import Target
from slidingserve.bench.replay import (
    Progress,
    Stopped,
    most_open_files,
    replay,
    replay_now,
    replay_trace,
)
from slidingserve.bench.workload import ClassMix, Item, Promise

from tests.unit.bench.server import TEXT, serving, threaded


def items(count: int, tokens: int = 6) -> list[Item]:
    return [Item(i, 0.0, "dialogue", 12, tokens) for i in range(count)]


async def test_each_token_has_a_time_and_the_class_travels_in_the_header() -> None:
    async with serving(lambda body, headers: "ok") as server:
        rows = await replay(items(3), Target(server.url, "fake", seed=9))
        assert [row.index for row in rows] == [0, 1, 2]
        assert all(row.ok and row.status == 200 and len(row.token_times) == 6 for row in rows)
        assert all(row.token_times == sorted(row.token_times) for row in rows)
        assert all(row.text == TEXT * 6 for row in rows)
        prompts = {tuple(body["prompt"]) for body, _ in server.seen}
        assert prompts == {tuple(item.token_ids(9)) for item in items(3)}
        body, headers = server.seen[0]
        assert headers["x-slo-class"] == "dialogue"
        assert (body["max_tokens"], body["ignore_eos"], body["stream"]) == (6, True, True)


async def test_limits_are_told_to_the_server_only_where_asked_for() -> None:
    item = Item(0, 0.0, "dialogue", 12, 2, promise=Promise(0.35, 0.04))
    async with serving(lambda body, headers: "ok") as server:
        for tell in (True, False):
            await replay([item], Target(server.url, "fake", tell_promise=tell))
        told, silent = (headers for _, headers in server.seen)
    assert (float(told["x-slo-ttft-ms"]), float(told["x-slo-tbt-ms"])) == (350, 40)
    assert "x-slo-ttft-ms" not in silent


async def test_a_run_is_salted_so_that_it_finds_no_prefix_of_an_earlier_one() -> None:
    async with serving(lambda body, headers: "ok") as server:
        await replay(items(1), Target(server.url, "fake", cache_salt="run-1"))
        await replay(items(1), Target(server.url, "fake"))
        assert [body.get("cache_salt") for body, _ in server.seen] == ["run-1", None]


async def test_two_tokens_in_one_chunk_are_counted_as_two() -> None:
    async with serving(lambda body, headers: "pairs") as server:
        (row,) = await replay(items(1), Target(server.url, "fake"))
    assert len(row.token_times) == 6
    assert row.token_times[0] == row.token_times[1] < row.token_times[2]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("400", "400: refused with 400"),
        ("429", "429: refused with 429"),
        ("500", "500: refused with 500"),
        ("hang", "not finished within 0.3 s"),
        ("cut", "cut after 3 of 6 tokens"),
        ("close", "closed the connection in the middle of an answer after 3 tokens"),
        ("event-error", "error in the stream: engine died"),
        ("event:" + "[" * 100_000, "an event that is no completion: [[["),
        ('event:{"choices": 7}', "an event that is no completion"),
        ('event:{"choices": [], "usage": [1]}', "an event that is no completion"),
        (
            'event:{"choices": [], "usage": {"completion_tokens": 1000000000000}}',
            "the server counts 1000000000000 tokens, 6 were asked for",
        ),
    ],
)
async def test_a_failure_is_a_row_with_a_sentence(what: str, says: str) -> None:
    async with serving(lambda body, headers: what) as server:
        (row,) = await replay(items(1), Target(server.url, "fake", timeout=0.3 if what == "hang" else 20))
    assert not row.ok
    assert says in (row.error or "")


async def test_a_refused_connection_is_a_row() -> None:
    async with serving(lambda body, headers: "ok") as server:
        url = server.url
    (row,) = await replay(items(1), Target(url, "fake"))
    assert row.error == "connection refused or host unknown"


async def test_a_request_that_cannot_be_sent_is_a_row_and_the_others_go_on() -> None:
    odd = Item(1, 0.0, "dialogue", 1, 6, prompt="\ud800")
    async with serving(lambda body, headers: "ok") as server:
        first, second = await replay([*items(1), odd], Target(server.url, "fake"))
    assert first.ok
    assert "surrogates not allowed" in (second.error or "")


@pytest.mark.parametrize("url", ["http://", "http://x:99999/v1", "http://x\ty/v1"])
async def test_a_url_that_cannot_be_is_a_sentence(url: str) -> None:
    (row,) = await replay(items(1), Target(url, "fake"))
    assert f"--url {url!r}" in (row.error or "")
    assert "write http://HOST:PORT/v1" in (row.error or "")


def test_an_interrupt_leaves_the_rows_that_were_there() -> None:
    def stop(state: Progress) -> None:
        if state.done == 2:
            signal.raise_signal(signal.SIGINT)

    answers = iter(["ok", "ok"])
    with threaded(lambda body, headers: next(answers, "hang")) as server, pytest.raises(Stopped) as stopped:
        replay_now(items(5), Target(server.url, "fake"), concurrency=1, observer=stop)
    assert [(row.index, row.ok) for row in stopped.value.rows] == [(0, True), (1, True)]


async def test_no_more_than_the_bound_is_open_at_once_and_all_are_sent() -> None:
    async with serving(lambda body, headers: "ok") as server:
        rows = await replay(items(20), Target(server.url, "fake"), concurrency=3)
        assert server.open_most == 3
    assert sum(row.ok for row in rows) == 20


async def test_requests_leave_at_their_arrival_and_progress_is_told() -> None:
    seen: list[Progress] = []
    mix = [ClassMix("a", 1, (4, 4), (2, 2))]
    planned = workload.generate(mix, 10, 40.0, seed=0)
    async with serving(lambda body, headers: "ok") as server:
        rows = await replay(planned, Target(server.url, "fake"), observer=seen.append)
    assert all(row.sent >= row.arrival for row in rows)
    assert (seen[-1].done, seen[-1].running, seen[-1].total) == (10, 0, 10)
    assert seen[-1].expected >= planned[-1].arrival


def test_a_trace_is_replayed_with_its_promises_by_one_call() -> None:
    trace = workloads.get("sharegpt", requests=5, qps=500.0, seed=2)
    ttft, tbt = np.full(5, 10.0), np.full(5, 1.0)
    with threaded(lambda body, headers: "ok") as server:
        rows = replay_trace(trace, ttft, tbt, Target(server.url, "fake", seed=3))
        assert len(server.seen) == 5
    assert [len(row.token_times) for row in rows] == trace.output_tokens.tolist()
    assert all(row.promise == Promise(10.0, 1.0) for row in rows)


def test_as_many_requests_may_be_open_as_the_process_may_have_files() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert most_open_files(10) == 10
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert most_open_files(1000) == 1000, "the soft limit is raised"
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
