"""Children on a real API server: made once, kept in shape, never taken from others, gone with their owner."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

CONFIG = "slidingserve.json"


def settled(space: Space, name: str = "chat", **changes: Any) -> None:
    """A resource without pods, at rest."""
    space.apply(manifest(name, **changes))
    space.reason(name, "ScaledToZero")


def written(space: Space, name: str = "chat") -> dict[str, Any]:
    return dict(json.loads(space.must("configmap", f"{name}-config")["data"][CONFIG]))


def test_a_resource_gets_its_children_and_says_so_in_columns(space: Space, operator: Operator) -> None:
    settled(space)
    assert sorted(space.children("chat")) == [
        "configmap/chat-config", "deployment.apps/chat", "poddisruptionbudget.policy/chat", "service/chat",
        "serviceaccount/chat",
    ]  # fmt: skip
    head, row = space.run("get", "slos").splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "REPLICAS", "SLO", "ATTAINMENT", "MODEL", "AGE"]
    assert row.split()[:6] == ["chat", "False", "ScaledToZero", "0/0", "Unknown", "file:///models/demo"]
    assert f"http://chat.{space.name}.svc:8000/v1" in space.run("get", "slos", "-o", "wide")
    for child in space.children("chat"):
        kind, _, name = child.partition("/")
        (owner,) = space.must(kind, name)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("SLOServe", "chat", True)
    assert "finalizers" not in space.must("sloserve", "chat")["metadata"]


def at_rest(operator: Operator) -> bool:
    """Whether nothing was written for a while."""
    mark = operator.mark()
    time.sleep(2)
    return operator.writes(mark) == []


def test_a_second_pass_writes_nothing_even_after_a_restart(space: Space, operator: Operator) -> None:
    settled(space)
    space.apply(manifest("pods", replicas=1, engine={"tensorParallelSize": 64}))
    space.reason("pods", "InsufficientGPU", seconds=60)
    until(lambda: at_rest(operator), "the Deployment's counts are all told", 60)
    assert operator.stop(signal.SIGTERM) == 0
    mark = operator.mark()
    operator.start()
    space.run("annotate", "sloserve", "chat", "touched=1")
    space.apply(manifest("later"))
    space.reason("later", "ScaledToZero")
    mine = [line for line in operator.writes(mark) if "later" not in line and "events" not in line]
    assert mine == []


def test_what_somebody_changes_or_deletes_is_repaired(space: Space, operator: Operator) -> None:
    settled(space)
    before = {kind: space.must(kind, "chat") for kind in ("deployment", "service", "serviceaccount")}
    config = written(space)
    patch = '{"data": {"slidingserve.json": "{}"}}'
    space.run("patch", "configmap", "chat-config", "--type=merge", "-p", patch)
    space.run(
        "patch", "serviceaccount", "chat", "--type=merge", "-p", '{"automountServiceAccountToken": true}'
    )
    space.run("scale", "deployment", "chat", "--replicas=3")
    space.run("delete", "service", "chat")
    until(lambda: written(space) == config, "the settings as they were")
    until(lambda: space.get("service", "chat"), "a new Service")
    until(lambda: space.must("deployment", "chat")["spec"]["replicas"] == 0, "the resource's number")
    until(
        lambda: space.must("serviceaccount", "chat")["automountServiceAccountToken"] is False,
        "the account's field",
    )
    assert space.must("service", "chat")["metadata"]["uid"] != before["service"]["metadata"]["uid"]
    assert space.must("deployment", "chat")["spec"]["template"] == before["deployment"]["spec"]["template"]


def test_a_label_taken_off_a_child_comes_back(space: Space, operator: Operator) -> None:
    """Without the label no watch tells of the child any more."""
    settled(space)
    space.run("label", "configmap", "chat-config", "app.kubernetes.io/managed-by-")
    until(lambda: "configmap/chat-config" in space.children("chat"), "still ours by its other label")
    label = "app.kubernetes.io/managed-by"
    until(lambda: label in space.must("configmap", "chat-config")["metadata"]["labels"], "the label")


def test_what_others_add_to_a_child_stays(space: Space, operator: Operator) -> None:
    settled(space)
    space.run("annotate", "service", "chat", "team=red")
    space.patch("chat", {"engine": {"accelerator": "cpu", "maxModelLength": 64}})
    until(lambda: "--max-model-len=64" in json.dumps(space.must("deployment", "chat")), "the new argument")
    assert space.must("service", "chat")["metadata"]["annotations"]["team"] == "red"


def test_a_field_that_is_no_longer_asked_for_goes(space: Space, operator: Operator) -> None:
    settled(space, engine={"accelerator": "nvidia.com/gpu", "tensorParallelSize": 2, "extraArgs": ["--a"]})
    assert "dshm" in json.dumps(space.must("deployment", "chat")["spec"])
    space.patch("chat", {"engine": {"tensorParallelSize": 1, "extraArgs": []}})
    until(lambda: "dshm" not in json.dumps(space.must("deployment", "chat")["spec"]), "no shared memory")
    managers = space.must("deployment", "chat")["metadata"]["managedFields"]
    ours = [(m["manager"], m["operation"]) for m in managers if m["manager"] == "sloserve-operator"]
    assert ours == [("sloserve-operator", "Apply")]


def full(name: str) -> dict[str, Any]:
    """A resource with a child of every kind."""
    cache = {"modelCache": {"size": "1Gi"}}
    return manifest(name, storage=cache, networkPolicy={"enabled": True})


POD = {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": [{"name": "c", "image": "none:1"}]}}
MINE = {"matchLabels": {"app": "mine"}}
# By the name of the resource in whose way it is: kind, name and body of what a stranger made.
STRANGERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "account": ("v1 ServiceAccount", "account", {}),
    "settings": ("v1 ConfigMap", "settings-config", {"data": {CONFIG: "mine"}}),
    "claim": (
        "v1 PersistentVolumeClaim",
        "claim-model-cache",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}},
    ),
    "service": ("v1 Service", "service", {"spec": {"ports": [{"port": 1}]}}),
    "rules": ("networking.k8s.io/v1 NetworkPolicy", "rules", {"spec": {"podSelector": MINE}}),
    "budget": ("policy/v1 PodDisruptionBudget", "budget", {"spec": {"selector": MINE, "minAvailable": 1}}),
    "pods": (
        "apps/v1 Deployment",
        "pods",
        {"spec": {"replicas": 0, "selector": MINE, "template": POD}},
    ),
}


def test_objects_of_somebody_else_stay_untouched_until_they_go(space: Space, operator: Operator) -> None:
    for kind, name, body in STRANGERS.values():
        version, _, word = kind.partition(" ")
        space.apply({"apiVersion": version, "kind": word, "metadata": {"name": name}, **body})
    before = {}
    for resource, (kind, name, _) in STRANGERS.items():
        word = kind.partition(" ")[2]
        before[word, name] = space.must(word, name)["metadata"]
        space.apply(full(resource))
    for resource, (kind, name, _) in STRANGERS.items():
        word = kind.partition(" ")[2]
        text = space.reason(resource, "NameCollision")["message"]
        assert f"{word} {name} exists and was not made by this resource" in text
        # A Deployment's controller may write to it; nobody else may have.
        managers = {m["manager"] for m in space.must(word, name)["metadata"]["managedFields"]}
        assert "sloserve-operator" not in managers
        assert space.must(word, name)["metadata"]["uid"] == before[word, name]["uid"]
        assert "deployment.apps/" + resource not in space.children(resource)
    touched = [w for w in operator.writes(0) if w.split()[2] in {n for _, n, _ in STRANGERS.values()}]
    assert {w.split()[0] for w in touched if "sloserves" not in w} <= {"create", "patch"}
    for kind, name, _ in STRANGERS.values():
        space.run("delete", kind.partition(" ")[2], name, "--wait=false")
    for resource in STRANGERS:
        space.reason(resource, "ScaledToZero", seconds=60)
        assert len(space.children(resource)) == 7


def test_a_child_that_the_api_server_refuses_is_named_and_not_tried_again(
    space: Space, operator: Operator
) -> None:
    wrong = {"accelerator": "cpu", "nodeSelector": {"not a label!": "a"}}  # the CRD looks at values alone
    mark = operator.mark()
    space.apply(manifest(engine=wrong))
    settled(space, "later")
    space.patch("later", {"engine": wrong})
    for name in ("chat", "later"):
        condition = space.reason(name, "ChildRefused", kind="SpecValid")
        assert condition["status"] == "False"
        assert "not a label!" in condition["message"]
        assert space.condition(name, "Ready")["reason"] == "ChildRefused"
    for touch in ("1", "2", "3"):
        space.run("annotate", "--overwrite", "sloserve", "--all", f"touched={touch}")
    space.run("delete", "service", "later")
    until(lambda: space.get("service", "later"), "what is not at fault is kept in shape")
    settled(space, "other")
    tried = [w for w in operator.writes(mark) if "deployments" in w]
    assert [w for w in tried if w.endswith("422")] == [
        "create deployments chat 422",
        "patch deployments later 422",
    ]
    for name in ("chat", "later"):
        space.patch(name, {"engine": {"nodeSelector": {"not a label!": None, "kubernetes.io/os": "linux"}}})
        space.reason(name, "ScaledToZero")
        assert space.condition(name, "SpecValid")["status"] == "True"


def test_a_refused_child_that_somebody_deletes_is_made_anew_at_once(space: Space, operator: Operator) -> None:
    settled(space)
    space.run("patch", "configmap", "chat-config", "--type=merge", "-p", '{"immutable": true}')
    space.patch("chat", {"scheduler": {"alpha": 0.5}})
    assert "immutable" in space.reason("chat", "ChildRefused", kind="SpecValid")["message"]
    space.run("delete", "deployment", "chat")
    until(lambda: space.get("deployment", "chat"), "engines with the settings that are there")
    space.run("delete", "configmap", "chat-config")
    space.reason("chat", "ScaledToZero")
    assert written(space)["generation"] == 2


def test_all_children_go_with_the_resource(space: Space, operator: Operator) -> None:
    settled(space)
    space.run("delete", "sloserve", "chat", "--timeout=30s")
    until(lambda: not space.children("chat"), "no child left", 60)


def test_a_resource_made_anew_at_once_gets_children_of_its_own(space: Space, operator: Operator) -> None:
    settled(space)
    space.run("delete", "sloserve", "chat", "--timeout=30s")
    settled(space)
    uid = space.must("sloserve", "chat")["metadata"]["uid"]
    owners = [
        space.must(*child.split("/"))["metadata"]["ownerReferences"][0] for child in space.children("chat")
    ]
    assert [owner["uid"] for owner in owners] == [uid] * 5


def test_scaling_moves_the_deployment_and_not_the_settings(space: Space, operator: Operator) -> None:
    settled(space)
    before = written(space)
    assert before["generation"] == 1
    space.run("scale", "sloserve", "chat", "--replicas=2")
    until(lambda: space.must("deployment", "chat")["spec"]["replicas"] == 2, "two replicas")
    until(lambda: space.must("sloserve", "chat")["status"]["replicas"] == 2, "two pods counted")
    scale = json.loads(space.run("get", "sloserve", "chat", "--subresource=scale", "-o", "json"))
    assert scale["status"] == {"replicas": 2, "selector": "sloserve.dev/name=chat"}
    assert written(space) == before
    generation = space.patch("chat", {"scheduler": {"alpha": 0.5}})
    until(lambda: written(space)["revision"] != before["revision"], "new settings")
    assert written(space)["generation"] == generation > 1
    space.run("scale", "sloserve", "chat", "--replicas=0")
    space.reason("chat", "ScaledToZero")
    assert written(space)["generation"] == generation


def test_lost_settings_come_back_with_their_generation(space: Space, operator: Operator) -> None:
    settled(space)
    space.patch("chat", {"engine": {"maxModelLength": 32}})
    before = written(space)
    space.run("delete", "configmap", "chat-config")
    until(lambda: space.get("configmap", "chat-config"), "a new ConfigMap")
    assert written(space) == before
