"""The connection to the API server, broken in several ways and healed: nothing stays undone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sloserve_operator.kinds import WATCHED

from tests.contract.proxy import Proxy, proxied
from tests.contract.space import Operator, Space, free_port, holds, manifest, until

pytestmark = pytest.mark.cluster


@contextlib.contextmanager
def behind(space: Space, **settings: str) -> Iterator[tuple[Operator, Proxy]]:
    """An operator behind a proxy, with one settled resource."""
    with proxied(space.cluster.kubeconfig) as proxy:
        operator = Operator(space, proxy=proxy, extra={"CALL_TIMEOUT_SECONDS": "3", **settings})
        try:
            operator.start()
            space.apply(manifest())
            space.reason("chat", "ScaledToZero", seconds=60)
            yield operator, proxy
            assert operator.process
            assert operator.process.poll() is None, "it lived through it"
        finally:
            operator.kill()


@pytest.fixture
def broken(space: Space) -> Iterator[tuple[Operator, Proxy]]:
    with behind(space, RESYNC_SECONDS="10") as made:
        yield made


def at_rest(operator: Operator) -> int | None:
    """The end of the audit log, if nothing was written for a second."""
    mark = operator.mark()
    time.sleep(1)
    return mark if operator.writes(mark) == [] else None


def settles(space: Space) -> None:
    space.reason("later", "ScaledToZero", seconds=120)
    until(lambda: "service/chat" in space.children("chat"), "what was deleted meanwhile is there again", 120)


def test_connections_that_drop_are_made_anew(space: Space, broken: tuple[Operator, Proxy]) -> None:
    _, proxy = broken
    before = proxy.connections
    proxy.drop()
    space.apply(manifest("later"))
    space.run("delete", "service", "chat")
    settles(space)
    assert proxy.connections > before


@pytest.mark.parametrize("fault", ["cut", "hang"])
def test_what_changed_during_an_outage_is_done_after_it(
    space: Space, broken: tuple[Operator, Proxy], fault: str
) -> None:
    operator, proxy = broken
    mark = until(lambda: at_rest(operator), "nothing is under way", 60)
    getattr(proxy, fault)()
    space.apply(manifest("later"))
    space.run("delete", "service", "chat")
    # Longer than the deadline of a call.
    holds(lambda: operator.writes(mark) == [], "an outage", 5)
    proxy.heal()
    settles(space)


@pytest.mark.parametrize(
    "settings",
    [
        {"WATCH_SILENCE_SECONDS": "3", "RESYNC_SECONDS": "600"},
        {"WATCH_SILENCE_SECONDS": "600", "RESYNC_SECONDS": "600", "WATCH_SECONDS": "1"},
        {"WATCH_SILENCE_SECONDS": "600", "RESYNC_SECONDS": "3"},
    ],
    ids=["no bookmark", "the watch's own end", "two LISTs"],
)
def test_what_changes_behind_a_watch_that_is_open_and_silent_is_seen(
    space: Space, settings: dict[str, str]
) -> None:
    with behind(space, **settings, HEALTH_PORT=str(free_port())) as (operator, proxy):
        proxy.stall()
        space.apply(manifest("later"))
        space.run("delete", "service", "chat")
        settles(space)
        silent = "is silent" in operator.fetch("/livez")[1]
        assert silent == (settings["RESYNC_SECONDS"] == "3"), "watches that stay silent end the process"


def test_the_api_server_ends_each_watch_after_the_time_that_was_asked_for(space: Space) -> None:
    operator = Operator(space, extra={"WATCH_SECONDS": "1"})
    mark = operator.mark()
    operator.start()
    try:
        least = 2 * len(WATCHED)
        until(lambda: len(ended_watches(operator, mark)) >= least, "watches that the server ended", 60)
        kinds = {event["objectRef"]["resource"] for event in ended_watches(operator, mark)}
        assert kinds == {kind.plural for kind in WATCHED}
    finally:
        operator.kill()


def ended_watches(operator: Operator, mark: int) -> list[dict[str, Any]]:
    found = []
    for event in operator.asked(mark):
        timed = "timeoutSeconds=1&" in f"{event['requestURI']}&"
        if event["verb"] == "watch" and timed and event["stage"] == "ResponseComplete":
            found.append(event)
    return found
