"""Every reason for which a resource is not ready, brought about on the real scheduler, kubelet and server.

One operator and one namespace for all, and all troubles at once: each test waits for its own. The engines
are stand-ins of a few megabytes (tests/cluster/standin) in real pods; what the real engine says of a model
hub is in tests/engine/test_hub.py and tests/e2e/test_hub.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.cluster.api import Cluster
from tests.cluster.pods import STAND_IN, load_stand_in
from tests.contract.space import Object, Operator, Space, manifest, until
from tests.demo.kube import Reach

pytestmark = pytest.mark.cluster

HUB_LINE = "slidingserve: token missing: org/gated on http://hub is gated (401: log in); give a token"


def stand_in(says: str = "", replicas: int = 1, spec: Object | None = None, **engine: Any) -> Object:
    """Changes of a spec whose engines are stand-ins."""
    env = [{"name": "STAND_IN", "value": says}] if says else []
    common = {"accelerator": "cpu", "image": STAND_IN, "drainTimeoutSeconds": 30, "env": env}
    return {"replicas": replicas, "engine": {**common, **engine}, **(spec or {})}


TROUBLES: dict[str, Object] = {
    "gpus": {"replicas": 1, "engine": {"tensorParallelSize": 64}},
    "node": stand_in(nodeSelector={"zone": "nowhere"}),
    "quota": stand_in(accelerator="example.com/gpu", tensorParallelSize=2),
    "image": {"replicas": 1},
    "secret": stand_in(spec={"model": {"uri": "hf://org/name", "tokenSecretRef": {"name": "hf"}}}),
    "configmap": stand_in(envFrom=[{"configMapRef": {"name": "settings"}}]),
    "absent-claim": stand_in(spec={"model": {"uri": "pvc://weights/llama"}}),
    "unbound-claim": stand_in(spec={"model": {"uri": "pvc://waiting/llama"}}),
    "unbound-cache": stand_in(spec={"storage": {"modelCache": {"size": "1Gi"}}}),
    "crash": stand_in("die: ValueError: no room for the KV cache"),
    "hub": stand_in(f"die: {HUB_LINE}"),
    "memory": stand_in("eat", resources={"limits": {"memory": "64Mi"}}, sharedMemorySize="64Mi"),
    "killed": stand_in("kill"),
    "late": stand_in("deaf", startupTimeoutSeconds=30),
    "frozen": stand_in("lazy"),
    "deaf": stand_in(),
    "stock": stand_in(),
    "pair": stand_in(replicas=2),
    "slow": stand_in("slow", accelerator="nvidia.com/gpu", tensorParallelSize=8),
    "evicted": stand_in("slow"),
}


@dataclass
class Troubles:
    """The resources, and ways to their pods."""

    space: Space
    operator: Operator
    reach: Reach

    def pods(self, name: str) -> list[Object]:
        """Pods of a resource that are to stay."""
        found = self.space.run("get", "pods", "-l", f"sloserve.dev/name={name}", "-o", "json")
        items: list[Object] = json.loads(found)["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def served(self, name: str) -> list[Object]:
        """The same, once the resource is ready."""
        self.space.reason(name, "AllReplicasReady", seconds=120)
        return self.pods(name)

    def tell(self, pod: Object, **says: Any) -> None:
        """What a stand-in says of itself from now on."""
        url = f"{self.reach.pod(pod, 8000)}/stand-in"
        httpx.put(url, json=says, timeout=10, trust_env=False).raise_for_status()

    def said(self, name: str, reason: str, seconds: float = 120) -> str:
        """The message of Ready once its reason is this."""
        found = self.space.reason(name, reason, seconds=seconds)
        assert found["status"] == ("True" if reason == "StockSchedulerInForce" else "False")
        return str(found["message"])

    def events(self, name: str, reason: str) -> list[Object]:
        """Events about a resource with this reason."""
        items: list[Object] = json.loads(self.space.run("get", "events.events.k8s.io", "-o", "json"))["items"]
        return [e for e in items if e["reason"] == reason and e["regarding"]["name"] == name]


@pytest.fixture(scope="module")
def troubles(cluster: Cluster, crd: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubles]:
    load_stand_in(cluster)
    name = "test-reasons"
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=120s", timeout=130)
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
    space = Space(cluster, name, tmp_path_factory.mktemp("reasons"))
    quota = {"hard": {"requests.example.com/gpu": "1"}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
    }
    space.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": quota})
    head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "waiting"}}
    space.apply({**head, "spec": claim})
    operator = Operator(space)
    operator.start()
    items = [manifest(trouble, **changes) for trouble, changes in TROUBLES.items()]
    space.apply({"apiVersion": "v1", "kind": "List", "items": items})
    found = Troubles(space, operator, Reach(cluster))
    (pod,) = found.served("frozen")
    found.tell(pod, healthy=False)  # takes a minute to show
    yield found
    space.run("delete", "sloserves", "--all", "--timeout=60s")
    operator.stop()
    space.run("delete", "pods", "--all", "--grace-period=1", "--timeout=60s")
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def test_an_engine_that_fails_its_liveness_probe_is_told_so_and_comes_back(troubles: Troubles) -> None:
    """The first, as it shows for ten seconds only, a minute after the probe begins to fail."""
    words = "was restarted because it no longer answered its liveness probe (/health)"

    def told() -> bool:
        found = troubles.space.condition("frozen", "Ready")
        return found["reason"] == "ProbeFailing" and words in found["message"]

    until(told, words, 150)
    assert troubles.events("frozen", "ProbeFailing")
    troubles.served("frozen")


def test_too_few_accelerators_are_counted_and_the_scheduler_is_quoted(troubles: Troubles) -> None:
    message = troubles.said("gpus", "InsufficientGPU")
    assert "asks for 64 nvidia.com/gpu" in message
    assert "lower spec.engine.tensorParallelSize" in message
    assert "0/1 nodes are available: 1 Insufficient nvidia.com/gpu" in message
    assert "preemption" not in message
    (event,) = until(lambda: troubles.events("gpus", "InsufficientGPU"), "an event")
    assert (event["type"], event["note"]) == ("Warning", message)


def test_a_node_that_does_not_fit_for_another_reason_is_the_schedulers_word(troubles: Troubles) -> None:
    assert "didn't match Pod's node affinity/selector" in troubles.said("node", "Unschedulable")


def test_a_quota_is_named_with_what_was_asked_and_what_is_allowed(troubles: Troubles) -> None:
    message = troubles.said("quota", "QuotaExceeded")
    assert "exceeded quota: gpus, requested: requests.example.com/gpu=2" in message
    assert "limited: requests.example.com/gpu=1" in message
    assert "Raise the ResourceQuota" in message


def test_an_image_that_cannot_be_pulled_is_named_in_one_sentence_for_both_of_the_kubelets(
    troubles: Troubles,
) -> None:
    """It says ErrImagePull and ImagePullBackOff by turns: each turn would be a write of the status."""
    message = troubles.said("image", "ImagePull")
    assert 'failed to resolve reference "localhost/none/engine-cpu:1"' in message
    assert "spec.engine.image" in message
    turns = set()

    def both() -> bool:
        (pod,) = troubles.pods("image")
        turns.add(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"])
        return {"ErrImagePull", "ImagePullBackOff"} <= turns

    until(both, "both of its words", 90)
    assert "Back-off" not in message
    assert troubles.said("image", "ImagePull") == message


def test_a_secret_that_is_not_there_is_named_with_the_field_that_asks_for_it(troubles: Troubles) -> None:
    message = troubles.said("secret", "ContainerConfig")
    assert 'secret "hf" not found. Create the Secret hf in this namespace' in message
    assert "spec.model.tokenSecretRef" in message


def test_a_config_map_that_is_not_there_is_named(troubles: Troubles) -> None:
    message = troubles.said("configmap", "ContainerConfig")
    assert 'configmap "settings" not found. Create the ConfigMap settings' in message


def test_a_claim_that_is_not_there_is_named(troubles: Troubles) -> None:
    assert "needs the claim weights, which is not there" in troubles.said("absent-claim", "ClaimMissing")


@pytest.mark.parametrize(
    ("name", "claim"), [("unbound-claim", "waiting"), ("unbound-cache", "unbound-cache-model-cache")]
)
def test_a_claim_without_a_volume_is_named(troubles: Troubles, name: str, claim: str) -> None:
    message = troubles.said(name, "ClaimUnbound")
    assert f"needs the claim {claim}, which has no volume" in message


def test_an_engine_that_dies_says_its_own_error_line(troubles: Troubles) -> None:
    message = troubles.said("crash", "CrashLoop")
    assert message.endswith("ended with exit code 1: ValueError: no room for the KV cache")


def test_what_the_engine_says_of_the_model_hub_becomes_the_reason(troubles: Troubles) -> None:
    message = troubles.said("hub", "TokenMissing")
    assert "token missing: org/gated on http://hub is gated" in message
    assert "Set spec.model.tokenSecretRef" in message


def test_a_container_killed_at_its_memory_limit_is_told_with_the_limit(troubles: Troubles) -> None:
    message = troubles.said("memory", "OutOfMemory")
    assert "killed at its memory limit of 64Mi. Raise spec.engine.resources.limits.memory" in message


def test_exit_code_137_alone_is_not_called_out_of_memory(troubles: Troubles) -> None:
    message = troubles.said("killed", "Killed")
    assert "exit code 137" in message
    assert "not at its memory limit" in message


def test_an_engine_that_is_never_ready_is_told_with_its_start_up_time(troubles: Troubles) -> None:
    message = troubles.said("late", "ProbeFailing")
    assert "was not ready within 30 s" in message
    assert "Raise spec.engine.startupTimeoutSeconds" in message


def test_an_engine_that_was_ready_and_no_longer_answers_is_told_since_when(troubles: Troubles) -> None:
    (pod,) = troubles.served("deaf")
    troubles.tell(pod, ready=False)
    message = troubles.said("deaf", "ProbeFailing")
    (pod,) = troubles.pods("deaf")
    (since,) = [c["lastTransitionTime"] for c in pod["status"]["conditions"] if c["type"] == "Ready"]
    assert f"has not answered its readiness probe since {since}" in message
    troubles.tell(pod, ready=True)
    troubles.served("deaf")


def test_stock_scheduling_is_said_though_the_engine_is_ready(troubles: Troubles) -> None:
    (pod,) = troubles.served("stock")
    troubles.tell(pod, state={"fallback": {"reason": "--scheduling-policy priority"}})
    assert "--scheduling-policy priority" in troubles.said("stock", "StockSchedulerInForce")


def test_settings_that_some_pods_have_and_some_have_not_are_told_with_names(troubles: Troubles) -> None:
    first, second = sorted(pod["metadata"]["name"] for pod in troubles.served("pair"))
    behind = next(pod for pod in troubles.pods("pair") if pod["metadata"]["name"] == second)
    troubles.tell(behind, state={"applied": {"revision": "older", "generation": 0}})
    generation = troubles.space.patch("pair", {"scheduler": {"alpha": 0.5}})
    message = troubles.space.reason("pair", "PartlyApplied", kind="ConfigApplied", seconds=60)["message"]
    assert f"generation {generation} is in force in 1 of 2 pods ({first}); {second} has generation 0" in str(
        message
    )
    assert message in troubles.said("pair", "ConfigNotApplied"), "a generation that does not run is not Ready"
    applied = json.loads(troubles.space.must("configmap", "pair-config")["data"]["slidingserve.json"])
    label = {key: applied[key] for key in ("revision", "generation")}
    troubles.tell(behind, state={"applied": label})
    found = troubles.space.reason("pair", "AllReplicasReady", seconds=60)
    assert found["observedGeneration"] == generation


def test_accelerators_that_our_own_old_pod_still_holds_are_waited_for(troubles: Troubles) -> None:
    (old,) = troubles.served("slow")
    troubles.space.patch("slow", {"engine": {"maxModelLength": 64}})
    words = f"waits for pod {old['metadata']['name']} to end its running requests"
    until(lambda: words in troubles.said("slow", "WaitingForDrain"), words, 60)
    troubles.served("slow")
    assert troubles.events("slow", "InsufficientGPU") == []


def test_an_eviction_is_told_with_its_cause(troubles: Troubles) -> None:
    (pod,) = troubles.served("evicted")
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{troubles.space.name}/pods/{name}/eviction"
    troubles.space.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
    (event,) = until(lambda: troubles.events("evicted", "Evicted"), "an event", 60)
    assert f"pod {name} has to leave its node (EvictionByEvictionAPI" in event["note"]
    troubles.served("evicted")


def test_describe_reads_the_reason_its_sentence_and_the_event(troubles: Troubles) -> None:
    message = troubles.said("memory", "OutOfMemory")
    until(lambda: troubles.events("memory", "OutOfMemory"), "an event")
    text = " ".join(troubles.space.run("describe", "sloserve", "memory").split())
    assert f"Message: {message}" in text
    assert "Reason: OutOfMemory Status: False Type: Ready" in text
    assert "Warning OutOfMemory" in text.partition("Events:")[2]


def test_each_trouble_was_told_once(troubles: Troubles) -> None:
    """By now the kubelet has said the same of most of them in several ways."""
    reasons = {"crash": "CrashLoop", "memory": "OutOfMemory", "image": "ImagePull", "hub": "TokenMissing"}
    for name, reason in reasons.items():
        assert len(troubles.events(name, reason)) == 1, name
