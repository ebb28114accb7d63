"""Every golden resource on a real API server: its children are taken as they are, and then left alone."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
import yaml
from sloserve_operator.desired.names import ENGINE_IMAGE, RESTART_HASH, TEMPLATE_VERSION

from tests.contract.space import Operator, Space, manifest, until
from tests.desired import DATA, ROOT, inputs

pytestmark = pytest.mark.cluster


def golden(name: str) -> dict[str, Any]:
    """An input, without pods, as the API server takes it today."""
    obj = yaml.safe_load((ROOT / DATA / "input" / name).read_text())
    obj["spec"]["replicas"] = 0
    if obj["spec"].get("engine", {}).get("pipelineParallelSize", 1) > 1:  # taken without it once
        obj["spec"]["engine"]["extraArgs"] = ["--fallback"]
    return dict(obj)


def test_the_api_server_takes_every_golden_resource_and_nothing_is_written_twice(
    space: Space, operator: Operator
) -> None:
    names = [golden(name)["metadata"]["name"] for name in inputs()]
    for name in inputs():
        space.apply(golden(name))
    for name in names:
        space.reason(name, "ScaledToZero", seconds=60)
    assert "persistentvolumeclaim/cached-model-cache" in space.children("cached")
    assert "networkpolicy.networking.k8s.io/guarded" in space.children("guarded")
    assert all(f"poddisruptionbudget.policy/{name}" in space.children(name) for name in names)
    assert operator.stop(signal.SIGTERM) == 0
    mark = operator.mark()
    operator.start()
    for name in names:
        space.run("annotate", "sloserve", name, "touched=1")
    space.apply(manifest("later"))
    space.reason("later", "ScaledToZero", seconds=60)
    assert [line for line in operator.writes(mark) if "later" not in line and "events" not in line] == []


def test_children_that_are_no_longer_wanted_go_and_pods_are_not_touched(
    space: Space, operator: Operator
) -> None:
    space.apply(golden("policies.yaml"))
    space.reason("guarded", "ScaledToZero")
    before = space.must("deployment", "guarded")["spec"]["template"]
    gone = {"enabled": False}
    space.patch(
        "guarded", {"networkPolicy": gone, "disruptionBudget": gone, "service": {"type": "ClusterIP"}}
    )
    until(lambda: space.get("networkpolicy", "guarded") is None, "no NetworkPolicy")
    until(lambda: space.get("pdb", "guarded") is None, "no PodDisruptionBudget")
    until(lambda: space.must("service", "guarded")["spec"]["type"] == "ClusterIP", "a ClusterIP")
    assert space.must("deployment", "guarded")["spec"]["template"] == before


def test_a_new_spelling_of_a_quantity_is_no_new_generation_of_the_deployment(
    space: Space, operator: Operator
) -> None:
    def cpu(text: str) -> dict[str, Any]:
        return {"resources": {"limits": {"cpu": text, "memory": "1Gi"}}, "sharedMemorySize": "2Gi"}

    space.apply(manifest(engine=cpu("1")))
    space.reason("chat", "ScaledToZero")
    before = space.must("deployment", "chat")
    respelt = {"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}, "sharedMemorySize": "2048Mi"}
    generation = space.patch("chat", {"engine": respelt})
    until(
        lambda: space.must("sloserve", "chat")["status"].get("observedGeneration") == generation,
        "a look at it",
    )
    after = space.must("deployment", "chat")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["metadata"]["annotations"][RESTART_HASH] == before["metadata"]["annotations"][RESTART_HASH]


def test_a_deployment_of_the_operator_before_template_versions_is_not_restarted(
    space: Space, operator: Operator
) -> None:
    engine = {"resources": {"limits": {"cpu": 1}}}
    space.apply(manifest(engine=engine))
    space.reason("chat", "ScaledToZero")
    assert operator.stop(signal.SIGTERM) == 0
    # As it was written then: a hash over spellings, no version, and that release's image.
    old = {
        "metadata": {
            "annotations": {RESTART_HASH: "ae631bc62aa2", TEMPLATE_VERSION: None, ENGINE_IMAGE: "old:1"}
        }
    }
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "old:1"}]}}}}
    space.run("patch", "deployment", "chat", "--type=strategic", "-p", json.dumps({**old, **image}))
    operator.start()
    until(
        lambda: space.must("deployment", "chat")["metadata"]["annotations"].get(TEMPLATE_VERSION), "a version"
    )
    pod = space.must("deployment", "chat")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "old:1"


def test_a_typo_in_a_pod_template_is_told_in_the_servers_words(space: Space, operator: Operator) -> None:
    space.apply(manifest(podTemplate={"spec": {"prioritClassName": "high"}}))
    assert "prioritClassName" in space.reason("chat", "ChildRefused", kind="SpecValid")["message"]
    assert space.get("deployment", "chat") is None, "no engine starts without what was meant"
