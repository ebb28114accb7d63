"""Leader election on simulated clocks: whatever is delayed, lost or stopped, two never write at one time.

The Lease here is a record with a version, as the API server keeps it; the real one is in tests/contract.
"""

import asyncio
import random
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sloserve_operator.kube import KubeError
from sloserve_operator.lease import Election, LostError
from sloserve_operator.telemetry import Telemetry

SECONDS = 15


class Server:
    """One Lease. `lose`: of the calls that follow the request, the answer or nothing gets lost."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.lose: str | None = None

    async def get(self, kind: str, namespace: str, name: str, within: float | None) -> Any:
        if self.lose:
            raise KubeError("read", 0, "no answer")
        return deepcopy(self.lease)

    async def create(self, obj: dict[str, Any], within: float | None) -> Any:
        if self.lease:
            raise KubeError("create", 409, "exists")
        return self._store(obj)

    async def replace(self, obj: dict[str, Any], within: float | None) -> Any:
        if not self.lose and obj["metadata"].get("resourceVersion") != str(self.version):
            raise KubeError("replace", 409, "modified")
        return self._store(obj)

    def _store(self, obj: dict[str, Any]) -> Any:
        if self.lose == "request":
            raise KubeError("write", 0, "no answer")
        self.version += 1
        self.lease = deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        if self.lose == "answer":
            raise KubeError("write", 0, "no answer")
        return deepcopy(self.lease)


class Candidate:
    """An election whose loop the test turns by hand, with clocks of its own."""

    def __init__(self, server: Server, name: str, wall: timedelta = timedelta(), rate: float = 1.0) -> None:
        self.now, self.rate, self.name = random.Random(name).uniform(0, 1e6), rate, name
        kube: Any = server
        self.telemetry = Telemetry()
        self.election = Election(
            kube,
            self.telemetry,
            namespace="ns",
            name="lease",
            identity=name,
            seconds=SECONDS,
            clock=lambda: self.now,
            wall=lambda: datetime(2026, 1, 1, tzinfo=UTC) + wall,  # it stands still, too
        )

    def passes(self, seconds: float) -> None:
        self.now += seconds * self.rate

    async def tries(self) -> bool:
        return await self.election._attempt()

    @property
    def writes(self) -> bool:
        return self.election.time_left() > 0


async def both_pass(seconds: float, *candidates: Candidate) -> None:
    for candidate in candidates:
        candidate.passes(seconds)


async def test_the_first_one_leads_and_the_second_stands_by_for_as_long_as_it_renews() -> None:
    server = Server()
    a, b = Candidate(server, "a"), Candidate(server, "b")
    for _ in range(100):
        assert await a.tries()
        assert not await b.tries()
        assert (a.writes, b.writes) == (True, False)
        await both_pass(2, a, b)
    assert b.election.fault() is None, "a standby that sees the leader is ready"


async def test_a_standby_takes_over_after_the_duration_and_the_leader_has_stopped_by_then() -> None:
    server = Server()
    a, b = Candidate(server, "a"), Candidate(server, "b")
    await a.tries()
    await b.tries()
    for second in range(1, SECONDS):
        await both_pass(1, a, b)
        assert not await b.tries()
        assert a.writes == (second < 10)
    await both_pass(1, a, b)
    assert await b.tries()
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 2
    a.election.held.set()
    with pytest.raises(LostError, match="held by b"):
        await a.tries()


@pytest.mark.parametrize("hours", [-1000, 0, 1000])
async def test_the_wall_clocks_of_others_do_not_matter(hours: int) -> None:
    server = Server()
    a, b = Candidate(server, "a"), Candidate(server, "b", timedelta(hours=hours))
    for _ in range(20):
        assert await a.tries(), "and every renewal changes the record though the clock stands still"
        await both_pass(2, a, b)
        assert not await b.tries()


async def test_who_gives_it_up_is_followed_at_once() -> None:
    server = Server()
    a, b = Candidate(server, "a"), Candidate(server, "b")
    await a.tries()
    await b.tries()
    await a.election.release()
    assert not a.writes
    assert await b.tries()


async def test_a_record_that_says_longer_than_our_own_setting_is_waited_for() -> None:
    server = Server()
    a, b = Candidate(server, "a"), Candidate(server, "b")
    await a.tries()
    assert server.lease is not None
    server.lease["spec"]["leaseDurationSeconds"] = 60
    await b.tries()
    b.passes(59)
    assert not await b.tries()
    b.passes(1)
    assert await b.tries()


async def test_a_lost_answer_makes_neither_two_leaders_nor_none() -> None:
    server = Server()
    a, b = Candidate(server, "a"), Candidate(server, "b")
    server.lose = "answer"
    server.lease = None
    assert not await a.tries(), "a read fails too"
    server.lose = None
    assert await a.tries()
    server.lose = "answer"
    assert not await a.tries()
    assert a.writes, "until its deadline"
    server.lose = None
    assert await a.tries(), "the record says that it is ours"
    assert not await b.tries()


async def test_a_candidate_that_may_not_read_the_lease_is_not_ready() -> None:
    server = Server()
    server.lose = "request"
    a = Candidate(server, "a")
    assert not await a.tries()
    assert "cannot be read or written" in (a.election.fault() or "")


@pytest.mark.parametrize("seed", range(10))
async def test_never_two_write_whatever_is_lost_stopped_or_runs_at_another_rate(seed: int) -> None:
    chance = random.Random(seed)
    server = Server()
    all_of_them = [
        Candidate(server, f"{name}-0", timedelta(hours=chance.uniform(-99, 99)), chance.uniform(0.85, 1.15))
        for name in "abc"
    ]
    led, stopped = set(), dict.fromkeys(range(3), 0.0)
    for step in range(1500):
        await both_pass(0.25, *all_of_them)
        if step % 500 == 499:  # once in a while it is the leader that stops, for 25 s
            stopped |= {i: step + 100.0 for i, candidate in enumerate(all_of_them) if candidate.writes}
        for index, candidate in enumerate(all_of_them):
            if chance.random() < 0.002:
                stopped[index] = step + chance.uniform(0, 160)  # SIGSTOP, a blocked loop, a suspended machine
            if stopped[index] > step or chance.random() > 0.15:
                continue
            server.lose = chance.choices([None, "request", "answer"], [8, 1, 1])[0]
            try:
                if await candidate.tries():
                    candidate.election.held.set()
                    led.add(candidate.name)
            except LostError:  # the process ends and starts anew
                fresh = Candidate(server, f"{candidate.name}'", timedelta(), candidate.rate)
                all_of_them[index] = fresh
            finally:
                server.lose = None
        assert sum(candidate.writes for candidate in all_of_them) <= 1
    assert len(led) > 1, "it changed hands"


async def test_losing_it_ends_the_run_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    a = Candidate(server, "a")
    leads: list[bool] = []

    async def later() -> None:
        while not leads:  # noqa: ASYNC110
            await asyncio.sleep(0)
        server.lose = "request"
        a.passes(11)

    monkeypatch.setattr("sloserve_operator.lease.PAUSE_SHARE", 0)  # the simulated clock is what counts
    with pytest.raises(LostError, match="not renewed"):
        await asyncio.gather(a.election.run(lambda: leads.append(True)), later())


async def standby(server: Server, **spec: Any) -> Candidate:
    """Of a Lease that says this, and whose holder never moves again."""
    server.lease = {"metadata": {"resourceVersion": "0"}, "spec": spec}
    return Candidate(server, "b")


async def test_a_dead_holders_long_lease_is_said_with_its_remedy_and_until_when() -> None:
    b = await standby(Server(), holderIdentity="gone", leaseDurationSeconds=3600)
    assert not await b.tries()
    assert b.election.remark() == "", "it may live"
    b.passes(SECONDS + 5)
    assert not await b.tries()
    said = b.election.remark()
    assert (
        "held by gone, silent for 20 s, and its leaseDurationSeconds is 3600; it is taken in 3580 s" in said
    )
    assert "kubectl -n ns delete lease lease" in said
    b.passes(3600)
    assert await b.tries()
    assert b.election.remark() == ""


@pytest.mark.parametrize(
    "spec",
    [
        {"holderIdentity": "gone"},
        {"holderIdentity": "gone", "leaseDurationSeconds": 0},
        {"holderIdentity": "gone", "leaseDurationSeconds": -5},
        {"holderIdentity": "gone", "leaseDurationSeconds": 1, "renewTime": "2999-01-01T00:00:00.000000Z"},
        {"holderIdentity": "gone", "leaseDurationSeconds": 15, "leaseTransitions": None},
    ],
)
async def test_a_lease_that_says_odd_things_is_taken_after_our_own_duration(spec: dict[str, Any]) -> None:
    b = await standby(Server(), **spec)
    assert not await b.tries()
    b.passes(SECONDS - 1)
    assert not await b.tries()
    b.passes(1)
    assert await b.tries()


async def test_a_lease_of_nobody_is_taken_at_once() -> None:
    assert await (await standby(Server(), holderIdentity="", leaseDurationSeconds=3600)).tries()
    assert await (await standby(Server())).tries()
