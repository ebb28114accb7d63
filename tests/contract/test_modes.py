"""Which namespaces an operator serves, with which rights, and what several operators do to each other."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sloserve_operator.apply import PRUNED
from sloserve_operator.kinds import CHILDREN, WATCHED

from tests.cluster.api import Cluster
from tests.contract.space import Operator, Space, free_port, holds, manifest, until

pytestmark = pytest.mark.cluster


@pytest.fixture
def other(cluster: Cluster, crd: None, tmp_path: Path) -> Iterator[Space]:
    """A second namespace."""
    name = f"test-{secrets.token_hex(4)}"
    directory = tmp_path / "other"
    directory.mkdir()
    cluster.kubectl("create", "namespace", name)
    space = Space(cluster, name, directory)
    yield space
    space.run("delete", "sloserves", "--all", "--timeout=60s")
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def rights(space: Space, operator: Operator, namespace: str) -> dict[str, set[str]]:
    """What the operator's account may do in a namespace, beyond what every account may."""
    user = f"--as={operator.user}"
    text = space.cluster.kubectl("auth", "can-i", "--list", user, "-n", namespace, "--no-headers")
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line[0].isspace() or line.startswith("selfsubject"):
            continue  # URLs, and reviews of one's own rights
        resource, verbs = line.split()[0], line[line.rindex("[") + 1 : line.rindex("]")]
        found.setdefault(resource, set()).update(verbs.split())
    return found


def needed() -> dict[str, set[str]]:
    """The rights that the table of kinds asks for."""

    def name(group: str, plural: str) -> str:
        return f"{plural}.{group}" if group else plural

    out = {name(kind.group, kind.plural): {"list", "watch"} for kind in WATCHED}
    for kind in CHILDREN:
        out[name(kind.group, kind.plural)] |= {"get", "create", "patch"} | (
            {"delete"} if kind.kind in PRUNED else set()
        )
    out |= {"sloserves.sloserve.dev/status": {"patch"}, "sloserves.sloserve.dev/finalizers": {"update"}}
    return out | {"pods/status": {"patch"}, "events": {"create"}}


def test_two_releases_side_by_side_serve_their_own_namespaces_with_no_right_in_others(
    space: Space, other: Space
) -> None:
    operators = [Operator(space), Operator(other)]
    with contextlib.ExitStack() as stack:
        for operator in operators:
            stack.callback(operator.kill)
            operator.start()
        marks = [operator.mark() for operator in operators]
        for place in (space, other):
            place.apply(manifest())
        for place in (space, other):
            place.reason("chat", "ScaledToZero")
        for operator, mark in zip(operators, marks, strict=True):
            where = {event["objectRef"]["namespace"] for event in operator.written(mark)}
            assert where == {operator.space.name}
        assert rights(space, operators[0], space.name) == needed()
        assert rights(space, operators[0], other.name) == {}


def test_a_namespace_that_is_deleted_stops_no_other_and_is_taken_up_when_it_is_back(
    space: Space, other: Space
) -> None:
    names = [other.name, space.name]
    extra = {"NAMESPACES": ",".join(names), "RESYNC_SECONDS": "5", "HEALTH_PORT": str(free_port())}
    operator = Operator(space, values={"watchNamespaces": names}, extra={**extra, "WATCH_SECONDS": "5"})
    try:
        operator.start()
        for place in (space, other):
            place.apply(manifest())
        for place in (space, other):
            place.reason("chat", "ScaledToZero")
        other.cluster.kubectl("delete", "namespace", other.name, "--timeout=90s")
        until(lambda: operator.said("namespace left out"), "it says so", 60)
        until(lambda: operator.fetch("/readyz")[1].startswith("ok\n"), "it is ready")
        time.sleep(10)  # watches of 5 s have ended since
        space.apply(manifest("later"))
        space.reason("later", "ScaledToZero")
        status, text = operator.fetch("/livez")
        assert (status, text.splitlines()[0]) == (200, "ok")
        assert f"not served: namespace {other.name}" in text
        assert operator.log.read_text().count('"namespace left out"') == 1

        assert operator.stop() == 0
        operator.start()  # without it from the beginning
        space.patch("later", {"engine": {"maxModelLength": 64}})
        until(lambda: seen(space, "later") == 2, "the other is served at once")

        other.cluster.kubectl("create", "namespace", other.name)
        operator.grant()
        until(lambda: operator.said("namespace served again", after=operator.began), "it is back", 60)
        other.apply(manifest("again"))
        other.reason("again", "ScaledToZero")
        assert "not served" not in operator.fetch("/livez")[1]
        assert "Traceback" not in operator.log.read_text()
        assert operator.process
        assert operator.process.poll() is None
    finally:
        operator.kill()


def test_one_release_for_the_whole_cluster_serves_every_namespace(space: Space, other: Space) -> None:
    operator = Operator(space, values={"watchNamespaces": []}, extra={"NAMESPACES": ""})
    try:
        operator.start()
        for place in (space, other):
            place.apply(manifest())
        for place in (space, other):
            place.reason("chat", "ScaledToZero")
        other.run("delete", "service", "chat")
        until(lambda: other.get("service", "chat"), "repaired there as well")
        crd = {"customresourcedefinitions.apiextensions.k8s.io": {"get"}}
        assert rights(space, operator, other.name) == needed() | crd
    finally:
        operator.kill()
        for kind in ("clusterrolebinding", "clusterrole"):
            space.run("delete", kind, f"{space.name}-sloserve-operator", "--ignore-not-found")


def test_two_operators_of_one_kind_in_one_namespace_leave_each_other_alone(space: Space) -> None:
    """By mistake: each has other engine images and no election; an image once chosen stays."""
    one = Operator(space, name="one", extra={"POLL_SECONDS": "1"})
    two = Operator(space, name="two", images=("localhost/none/b:2", "localhost/none/b-cpu:2"))
    with contextlib.ExitStack() as stack:
        for operator in (one, two):
            stack.callback(operator.kill)
            operator.start()
        space.apply(manifest())
        generation = space.patch("chat", {"engine": {"maxModelLength": 64}})
        until(lambda: seen(space) == generation, "both agree on the last spec")
        space.run("delete", "service", "chat")
        until(lambda: space.get("service", "chat"), "one of them repairs it")
        time.sleep(1)  # for what is under way
        mark = one.mark()
        space.run("annotate", "sloserve", "chat", "touched=1")
        quiet = "neither writes when there is nothing to do"
        holds(lambda: [*one.writes(mark), *two.writes(mark)] == [], quiet, 4)


def seen(space: Space, name: str = "chat") -> Any:
    return space.must("sloserve", name).get("status", {}).get("observedGeneration")


# An operator of another version: it wants the same Service with another content.
OTHER = """
import sloserve_operator.apply as apply
from sloserve_operator.desired.names import APPLIED_HASH
build = apply.build
def other(resource, context):
    objects = build(resource, context)
    for obj in objects:
        if obj["kind"] == "Service":
            obj["metadata"]["labels"]["example.com/version"] = "other"
            obj["metadata"]["annotations"][APPLIED_HASH] = "other"
    return objects
apply.build = other
from sloserve_operator.app import main
main()
"""


def test_two_operators_that_want_different_things_write_seldom_and_say_so(space: Space) -> None:
    one, two = Operator(space, name="one"), Operator(space, name="two")
    two.command = [sys.executable, "-c", OTHER]
    with contextlib.ExitStack() as stack:
        for operator in (one, two):
            stack.callback(operator.kill)
            operator.start()
        mark = one.mark()
        space.apply(manifest())
        until(lambda: contested(one) or contested(two), "one of them gives way", 60)
        time.sleep(3)
        wrote = [line for line in (*one.writes(mark), *two.writes(mark)) if "patch services chat" in line]
        assert len(wrote) <= 2 * 5 + 2, "five applies a minute each, and the two of the creation"


def contested(operator: Operator) -> bool:
    for line in operator.log.read_text().splitlines():
        with contextlib.suppress(ValueError):
            if "is changed back each time" in json.loads(line).get("error", ""):
                return True
    return False
