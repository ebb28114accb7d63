"""Two operators, one Lease, a real API server: a leader that is cut off, hangs, is slow, stopped or killed.

Each reaches the API server through a proxy of its own and by a token of its own, so that the audit log tells
whose write came when. All the while a resource changes, so that a leader always has something to write.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sloserve_operator.kube import Kube
from sloserve_operator.lease import Election
from sloserve_operator.telemetry import Telemetry

from tests.contract.proxy import Proxy, proxied
from tests.contract.space import Operator, Space, free_port, holds, manifest, until

pytestmark = pytest.mark.cluster

SECONDS = 10
ELECTION = {"LEADER_ELECTION": "true", "LEASE_NAME": "sloserve", "LEASE_SECONDS": str(SECONDS)}


@dataclass
class Pair:
    """A leader and a standby, and a resource that changes all the time. `way`: the leader's connection."""

    space: Space
    leader: Operator
    standby: Operator
    way: Proxy
    mark: int
    last: int = 0

    def lease(self) -> dict[str, Any]:
        return dict(self.space.must("lease", "sloserve")["spec"])

    def taken_over(self, since: float) -> float:
        """Wait until the standby leads and has written. Returns: seconds from `since` to its first write."""
        until(lambda: self.standby.said("leading"), "the standby leads", 6 * SECONDS)
        first = until(lambda: next(iter(self.changes(self.standby)), None), "and writes", 60)
        return first - since

    def changes(self, operator: Operator) -> list[float]:
        """Times at which the API server got its writes, those to the Lease left out."""
        found = [e for e in operator.written(self.mark) if e["objectRef"]["resource"] != "leases"]
        return sorted(stamp(event["requestReceivedTimestamp"]) for event in found)

    def never_two(self) -> None:
        """All that the first leader wrote came before anything that the second wrote."""
        first, second = self.changes(self.leader), self.changes(self.standby)
        assert first, "or nothing is shown"
        assert second
        assert max(first) < min(second)

    def up_to_date(self) -> None:
        """What was last asked for is what the child says."""
        wanted = f'"tbtMilliseconds":{self.last}'

        def there() -> bool:
            data = self.space.must("configmap", "chat-config")["data"]["slidingserve.json"]
            return wanted in data.replace(" ", "").replace(".0", "")

        until(there, wanted, 60)


def stamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture
def pair(space: Space) -> Iterator[Pair]:
    values = {"leaderElection": {"enabled": True}}
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(proxied(space.cluster.kubeconfig)) for _ in range(2)]
        operators = [
            Operator(
                space,
                name=name,
                values=values,
                proxy=proxy,
                extra={**ELECTION, "LEASE_NAMESPACE": space.name, "HEALTH_PORT": str(free_port())},
            )
            for name, proxy in zip(("one", "two"), proxies, strict=True)
        ]
        made = Pair(space, operators[0], operators[1], proxies[0], operators[0].mark())
        space.apply(manifest())

        def change() -> None:
            for value in itertools.count(41):
                if stop.is_set():
                    return
                one = {"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": value}
                space.patch("chat", {"sloClasses": [one]})
                made.last = value
                stop.wait(0.1)

        changing = threading.Thread(target=change)
        try:
            made.leader.start()
            until(lambda: made.leader.said("leading"), "the first leads")
            made.standby.start()
            until(lambda: made.standby.said("standing by"), "the second stands by")
            changing.start()
            until(lambda: len(made.changes(made.leader)) > 10, "the leader writes")
            yield made
            stop.set()
            changing.join()
            made.up_to_date()
        finally:
            stop.set()
            for operator in operators:
                operator.kill()


def test_a_standby_is_ready_writes_nothing_and_takes_over_at_once_after_a_graceful_stop(pair: Pair) -> None:
    status, text = pair.standby.fetch("/readyz")
    assert (status, text.splitlines()[0]) == (200, "ok")
    holder = pair.lease()["holderIdentity"]
    same = "a standby that does not see renewals would take over"
    holds(lambda: pair.lease()["holderIdentity"] == holder, same, 1.3 * SECONDS)
    assert pair.changes(pair.standby) == []
    assert pair.leader.stop(signal.SIGTERM) == 0
    given_up = pair.leader.said("gave the Lease up")
    assert given_up
    took = pair.taken_over(stamp(given_up["timestamp"]))
    assert took < SECONDS, "it did not wait for the Lease to end"
    assert pair.lease()["leaseTransitions"] == 2
    pair.never_two()
    print(f"taken over {took:.1f} s after the end")


@pytest.mark.parametrize("fault", ["cut", "hang"])
def test_a_leader_whose_connection_is_broken_ends_before_the_standby_writes(pair: Pair, fault: str) -> None:
    began = time.time()
    getattr(pair.way, fault)()
    assert pair.leader.ended(4 * SECONDS) == 1
    ended = time.time()
    took = pair.taken_over(began)
    assert ended - began < took, "the old one was gone before the new one wrote"
    late = "the Lease was not renewed for 6.67 s: nothing is written any more, and a standby can take over"
    assert pair.leader.said(late)
    pair.never_two()
    print(f"{fault}: ended after {ended - began:.1f} s, taken over after {took:.1f} s")
    # A write that the network held up can come after all: it says what was asked for then, and is repaired.
    pair.way.heal()


def test_a_leader_that_was_stopped_for_longer_than_its_lease_writes_nothing_after_it(pair: Pair) -> None:
    assert pair.leader.process
    pair.leader.process.send_signal(signal.SIGSTOP)
    took = pair.taken_over(time.time())
    pair.leader.process.send_signal(signal.SIGCONT)
    assert pair.leader.ended(SECONDS) == 1
    pair.never_two()
    print(f"stopped: taken over after {took:.1f} s")


def test_a_leader_that_is_killed_is_followed_when_its_lease_ends(pair: Pair) -> None:
    began = time.time()
    assert pair.leader.stop(signal.SIGKILL) == -signal.SIGKILL
    took = pair.taken_over(began)
    assert took > SECONDS / 2, "it could not know"
    pair.never_two()
    print(f"killed: taken over after {took:.1f} s")


def test_a_leader_on_a_slow_connection_goes_on_leading(pair: Pair) -> None:
    pair.way.slow(0.3)
    before, seen = pair.lease(), len(pair.changes(pair.leader))
    until(lambda: len(pair.changes(pair.leader)) > seen + 10, "it still writes", 60)
    holder = before["holderIdentity"]
    holds(lambda: pair.lease()["holderIdentity"] == holder, "it leads", SECONDS)
    after = pair.lease()
    assert after["renewTime"] > before["renewTime"]
    assert pair.changes(pair.standby) == []
    pair.way.heal()


@pytest.mark.parametrize("hours", [-1000, 1000])
async def test_a_clock_that_is_weeks_wrong_takes_no_lease_and_loses_none(space: Space, hours: int) -> None:
    kube = Kube(timeout=10)
    await kube.connect(space.cluster.kubeconfig)
    ours: dict[str, Any] = {"namespace": space.name, "name": "skewed", "seconds": 3}
    one = Election(kube, Telemetry(), identity="one", **ours)
    skewed = datetime.now(UTC) + timedelta(hours=hours)
    two = Election(kube, Telemetry(), identity="two", wall=lambda: skewed, **ours)
    assert await one._attempt()
    until_then = time.monotonic() + 5
    while time.monotonic() < until_then:
        assert await one._attempt()
        assert not await two._attempt()
    await one.release()
    assert await two._attempt()
    assert await two._attempt(), "a clock that stands still renews as well"
    assert not await one._attempt()
    await kube.close()
