"""What strangers do to the children: damage to our fields is repaired at once, what they add is theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.contract.space import WRITES, Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

# By plural: name and what somebody makes of it.
DAMAGE: dict[str, tuple[str, dict[str, Any]]] = {
    "serviceaccounts": ("chat", {"automountServiceAccountToken": True}),
    "configmaps": ("chat-config", {"data": {"slidingserve.json": "{}"}}),
    "persistentvolumeclaims": ("chat-model-cache", {"metadata": {"labels": {"sloserve.dev/name": "else"}}}),
    "services": ("chat", {"spec": {"selector": {"one-more": "so-that-nothing-is-selected"}}}),
    "networkpolicies": ("chat", {"spec": {"ingress": [{}]}}),
    "poddisruptionbudgets": ("chat", {"spec": {"maxUnavailable": 7}}),
    "deployments": ("chat", {"spec": {"replicas": 3}}),
}


@pytest.fixture
def operator(space: Space) -> Iterator[Operator]:
    """One that looks only when a watch tells it to."""
    found = Operator(space, extra={"POLL_SECONDS": "3600", "RESYNC_SECONDS": "3600"})
    found.start()
    yield found
    if found.process:
        found.stop()


def settled(space: Space) -> None:
    """A resource without pods and with a child of every kind."""
    cache = {"modelCache": {"size": "1Gi"}}
    policy = {"enabled": True, "allowFrom": [{"namespaceSelector": {}}]}
    space.apply(manifest(storage=cache, networkPolicy=policy))
    space.reason("chat", "ScaledToZero")
    assert len(space.children("chat")) == len(DAMAGE)


def seconds(operator: Operator, since: int) -> dict[str, float]:
    """By plural: time from the answer to a stranger's write until the operator's own write came in."""
    path = operator.space.cluster.audit_log()
    assert path is not None
    ours = {event["auditID"] for event in operator.written(since)}
    last: dict[str, datetime] = {}
    found: dict[str, float] = {}
    with path.open("rb") as log:
        log.seek(since)
        events = [json.loads(line) for line in log.read().split(b"\n")[:-1]]
    for event in sorted(events, key=lambda e: str(e["stageTimestamp"])):
        target = event.get("objectRef", {})
        plural = target.get("resource", "")
        mine = target.get("namespace") == operator.space.name and target.get("name", "").startswith("chat")
        if event["verb"] not in WRITES or plural not in DAMAGE or not mine or "subresource" in target:
            continue
        if event["auditID"] not in ours:
            last[plural] = datetime.fromisoformat(event["stageTimestamp"])
        elif plural in last and plural not in found:
            came = datetime.fromisoformat(event["requestReceivedTimestamp"])
            found[plural] = (came - last[plural]).total_seconds()
    return found


def test_damage_to_a_child_of_any_kind_is_repaired_at_once(space: Space, operator: Operator) -> None:
    settled(space)
    good = {kind: space.must(kind, name) for kind, (name, _) in DAMAGE.items()}
    mark = operator.mark()
    for kind, (name, change) in DAMAGE.items():
        space.run("patch", kind, name, "--type=merge", "-p", json.dumps(change))
    for kind, (name, change) in DAMAGE.items():
        # Of the metadata the labels, for the version of the object moves.
        field = "labels" if "metadata" in change else next(iter(change))

        def repaired(kind: str = kind, name: str = name, field: str = field) -> bool:
            now, then = ({**obj, **obj["metadata"]} for obj in (space.must(kind, name), good[kind]))
            return bool(now[field] == then[field])

        until(repaired, f"{kind} {name} as it was")
    took = seconds(operator, mark)
    assert took.keys() == DAMAGE.keys()
    print("seconds to repair:", {kind: round(value, 3) for kind, value in took.items()})


def test_a_child_of_any_kind_that_is_deleted_comes_back_at_once(space: Space, operator: Operator) -> None:
    settled(space)
    good = {kind: space.must(kind, name) for kind, (name, _) in DAMAGE.items()}
    mark = operator.mark()
    for kind, (name, _) in DAMAGE.items():
        space.run("delete", kind, name, "--wait=false")
    for kind, (name, _) in DAMAGE.items():

        def anew(kind: str = kind, name: str = name) -> bool:
            now = space.get(kind, name)
            return now is not None and now["metadata"]["uid"] != good[kind]["metadata"]["uid"]

        until(anew, f"a new {kind} {name}")
    took = seconds(operator, mark)
    assert took.keys() == DAMAGE.keys()
    print("seconds to make anew:", {kind: round(value, 3) for kind, value in took.items()})


def test_a_selector_that_was_asked_for_empty_stays_empty(space: Space, operator: Operator) -> None:
    settled(space)
    good = space.must("networkpolicy", "chat")["spec"]
    (rule,) = good["ingress"]
    assert {"namespaceSelector": {}} in rule["from"]
    only = [
        {"namespaceSelector": {"matchLabels": {"team": "red"}}} if peer == {"namespaceSelector": {}} else peer
        for peer in rule["from"]
    ]
    patch = json.dumps({"spec": {"ingress": [{**rule, "from": only}]}})
    space.run("patch", "networkpolicy", "chat", "--type=merge", "-p", patch)
    until(lambda: space.must("networkpolicy", "chat")["spec"] == good, "every namespace as before")


def test_what_others_add_outlives_a_change_of_ours(space: Space, operator: Operator) -> None:
    """A sidecar and its volume, a restart by kubectl, labels and annotations."""
    settled(space)
    sidecar = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "mesh", "image": "mesh:1"}],
                    "volumes": [{"name": "mesh", "emptyDir": {}}],
                }
            }
        },
    }
    apply = ("apply", "--server-side", "--field-manager=injector", "-f", "-")
    space.run(*apply, stdin=json.dumps(sidecar))
    space.run("rollout", "restart", "deployment", "chat")
    for kind, (name, _) in DAMAGE.items():
        space.run("label", kind, name, "team=red")
        space.run("annotate", kind, name, "example.com/note=kept")
    restarted = "kubectl.kubernetes.io/restartedAt"
    template = space.must("deployment", "chat")["spec"]["template"]
    stamp = template["metadata"]["annotations"][restarted]

    space.patch("chat", {"engine": {"maxModelLength": 64}})
    until(lambda: "--max-model-len=64" in json.dumps(space.must("deployment", "chat")), "the new argument")
    template = space.must("deployment", "chat")["spec"]["template"]
    assert template["metadata"]["annotations"][restarted] == stamp
    assert [c["name"] for c in template["spec"]["containers"]] == ["main", "mesh"]
    assert "mesh" in [volume["name"] for volume in template["spec"]["volumes"]]
    for kind, (name, _) in DAMAGE.items():
        meta = space.must(kind, name)["metadata"]
        assert (meta["labels"]["team"], meta["annotations"]["example.com/note"]) == ("red", "kept"), kind

    mark = operator.mark()
    space.run("annotate", "sloserve", "chat", "touched=1")
    space.apply(manifest("later"))
    space.reason("later", "ScaledToZero")
    assert [w for w in operator.writes(mark) if "later" not in w and "events" not in w] == [], "no fight"
