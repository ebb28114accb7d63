"""The connection to the API server, broken in several ways and healed: nothing stays undone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.contract.proxy import Proxy, proxied
from tests.contract.space import Operator, Space, holds, manifest, until

pytestmark = pytest.mark.cluster


@pytest.fixture
def broken(space: Space) -> Iterator[tuple[Operator, Proxy]]:
    """An operator behind a proxy, with one settled resource."""
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(proxied(space.cluster.kubeconfig))
        operator = Operator(space, proxy=proxy, extra={"CALL_TIMEOUT_SECONDS": "3", "RESYNC_SECONDS": "10"})
        operator.start()
        try:
            space.apply(manifest())
            space.reason("chat", "ScaledToZero", seconds=60)
            yield operator, proxy
            assert operator.process
            assert operator.process.poll() is None, "it lived through it"
        finally:
            if operator.process:
                operator.process.kill()
                operator.process.wait()


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
    mark = operator.mark()
    getattr(proxy, fault)()
    space.apply(manifest("later"))
    space.run("delete", "service", "chat")
    # Longer than the deadline of a call.
    holds(lambda: operator.writes(mark) == [], "an outage", 8)
    proxy.heal()
    settles(space)


def test_watches_that_stall_while_new_connections_work_are_noticed(
    space: Space, broken: tuple[Operator, Proxy]
) -> None:
    _, proxy = broken
    proxy.stall()
    space.apply(manifest("later"))
    space.run("delete", "service", "chat")
    settles(space)
