"""Whole passes over a server in memory: what a race or a refused child must not hold up."""

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest
from sloserve_operator.api.engine import EngineState
from sloserve_operator.apply import Images
from sloserve_operator.cache import Cache
from sloserve_operator.contest import Contests
from sloserve_operator.kube import KubeError
from sloserve_operator.reconcile import Reconciler
from sloserve_operator.telemetry import Telemetry

from tests.unit.operator.objects import manifest, pod, state

KEY = ("default", "chat")


class Server:
    """Takes every write but of the kinds in `refuses`; `race` comes before the next status."""

    def __init__(self) -> None:
        self.version, self.refuses = 1000, ""
        self.fails: dict[str, int] = {}
        self.asked: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.resource = manifest()
        self.race: dict[str, Any] | None = None
        self.nudged: list[str] = []
        self.undeclared: set[str] = set()
        self.statuses = 0
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}

    def _stored(self, obj: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(obj["kind"])
        if obj["kind"] == self.refuses:
            raise KubeError("apply", 422, "spec.template is wrong")
        if status := self.fails.get(obj["kind"]):
            action = f"apply {obj['kind']} {obj['metadata']['name']}"
            raise KubeError(
                action, max(0, status), "no endpoints of the webhook", retry_after=10.0 * (status == 429)
            )
        self.version += 1
        out = copy.deepcopy(obj)
        out["metadata"] |= {"resourceVersion": str(self.version), "uid": f"uid-{obj['kind']}"}
        self.objects[obj["kind"], obj["metadata"]["name"]] = out
        return out

    async def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        return self._stored(obj)

    async def own(self, obj: dict[str, Any]) -> dict[str, Any]:
        return obj

    async def apply(self, obj: dict[str, Any], uid: str) -> dict[str, Any]:
        return self._stored(obj)

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((kind, name))

    async def delete(self, obj: dict[str, Any]) -> None:
        if obj["kind"] in self.fails:
            raise KubeError(f"delete {obj['kind']} chat", 500, "no endpoints of the webhook")

    async def nudge(self, namespace: str, name: str, value: str) -> None:
        self.nudged.append(value)

    async def event(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    async def apply_status(self, meta: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        if self.race:
            self.resource, self.race = self.race, None
        self.version += 1
        self.statuses += 1
        self.resource = {
            **self.resource,
            "status": {key: value for key, value in status.items() if key not in self.undeclared},
        }
        self.resource["metadata"] = {**self.resource["metadata"], "resourceVersion": str(self.version)}
        return self.resource


class Engine:
    """Runs the settings that it started with, and kept the promise of all its requests."""

    def __init__(self, requests: int = 0) -> None:
        self.requests = requests

    async def read(self, address: str) -> EngineState | str:
        return state("old", 1, classes={"dialogue": {"good": self.requests, "violations": {}}})


def operator(clock: Callable[[], float] = time.monotonic) -> tuple[Server, Cache, Reconciler]:
    server, cache = Server(), Cache()
    cache.put("SLOServe", server.resource)
    return server, cache, begun(server, cache, Engine(), clock)


def begun(server: Server, cache: Cache, engine: Engine, clock: Callable[[], float]) -> Reconciler:
    """An operator that has just begun."""
    kube: Any = server
    images = Images("e", "c")
    return Reconciler(kube, cache, engine, Telemetry(), images, poll_seconds=15, clock=clock)


async def test_figures_that_moved_are_written_a_minute_after_an_operators_start_at_the_earliest() -> None:
    now = 1000.0
    server, cache, engine = Server(), Cache(), Engine(100)
    cache.put("SLOServe", server.resource)
    cache.put("Pod", pod())
    await begun(server, cache, engine, lambda: now).reconcile(KEY)
    assert server.statuses == 1
    engine.requests = 200
    anew = begun(server, cache, engine, lambda: now)
    await anew.reconcile(KEY)
    assert server.statuses == 1, "a start is no news"
    now += 61
    await anew.reconcile(KEY)
    assert server.statuses == 2
    assert "n=200" in server.resource["status"]["attainment"]


def put(server: Server, cache: Cache, changed: dict[str, Any]) -> None:
    """A newer spec, as the watch tells of it."""
    server.version += 1
    changed["metadata"]["resourceVersion"] = str(server.version)
    server.resource = changed
    cache.put("SLOServe", changed)


async def test_a_spec_that_changed_during_the_pass_is_looked_at_at_once() -> None:
    """Its own event is older than the answer to our status, so the watch's handler passes over it."""
    server, _, reconciler = operator()
    server.race = manifest(generation=2, replicas=5)
    assert await reconciler.reconcile(KEY) == 0
    assert await reconciler.reconcile(KEY) == 15


async def test_a_refused_deployment_does_not_hold_up_live_settings() -> None:
    server, cache, reconciler = operator()
    cache.put("Pod", pod())
    server.refuses = "Deployment"
    assert await reconciler.reconcile(KEY) == 0.25
    assert len(server.nudged) == 1


async def test_a_refused_child_that_pods_do_not_need_holds_up_no_scaling() -> None:
    server, cache, reconciler = operator()
    await reconciler.reconcile(KEY)
    server.refuses = "PodDisruptionBudget"
    changed = manifest(generation=2, replicas=5, disruptionBudget={"maxUnavailable": 3})
    changed["metadata"]["resourceVersion"] = str(server.version + 1)
    cache.put("SLOServe", changed)
    await reconciler.reconcile(KEY)
    deployment = cache.get("Deployment", KEY)
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 5
    valid = next(c for c in server.resource["status"]["conditions"] if c["type"] == "SpecValid")
    assert valid["reason"] == "ChildRefused"


async def test_engines_are_not_changed_to_ones_that_would_wait_for_a_refused_claim() -> None:
    server, cache, reconciler = operator()
    await reconciler.reconcile(KEY)
    before = cache.get("Deployment", KEY)
    server.refuses = "PersistentVolumeClaim"
    put(server, cache, manifest(generation=2, replicas=5, storage={"modelCache": {"size": "1Gi"}}))
    await reconciler.reconcile(KEY)
    after = cache.get("Deployment", KEY)
    assert before is not None
    assert after is not None
    assert after["spec"]["template"] == before["spec"]["template"]
    assert after["spec"]["replicas"] == 5, "the engines that run are scaled all the same"
    writes = server.version
    await reconciler.reconcile(KEY)
    assert server.version == writes, "and a second look writes nothing"


async def test_a_refused_child_is_tried_again_after_minutes_and_its_pods_are_looked_at_meanwhile() -> None:
    now = 0.0
    server, cache, reconciler = operator(lambda: now)
    server.refuses = "Deployment"
    assert await reconciler.reconcile(KEY) == 15
    server.refuses = ""  # the policy that refused it is gone
    now = 299.0
    await reconciler.reconcile(KEY)
    assert cache.get("Deployment", KEY) is None
    now = 301.0
    await reconciler.reconcile(KEY)
    assert cache.get("Deployment", KEY) is not None


async def test_what_was_refused_is_tried_at_once_for_another_generation_or_another_live_child() -> None:
    server, cache, reconciler = operator(lambda: 0.0)
    server.refuses = "Deployment"
    await reconciler.reconcile(KEY)
    server.refuses = ""
    await reconciler.reconcile(KEY)
    assert cache.get("Deployment", KEY) is None, "nothing is another"
    put(server, cache, manifest(generation=2))
    await reconciler.reconcile(KEY)
    deployment = cache.get("Deployment", KEY)
    assert deployment is not None
    server.refuses = "Deployment"
    put(server, cache, manifest(generation=3, replicas=4))
    await reconciler.reconcile(KEY)
    server.refuses = ""
    await reconciler.reconcile(KEY)
    assert cache.get("Deployment", KEY) == deployment
    cache.drop("Deployment", deployment)  # by `kubectl delete`
    await reconciler.reconcile(KEY)
    assert (cache.get("Deployment", KEY) or {})["spec"]["replicas"] == 4


async def test_engines_are_made_while_a_child_that_they_do_not_need_is_refused() -> None:
    server, cache, reconciler = operator()
    server.refuses = "Service"
    await reconciler.reconcile(KEY)
    assert cache.get("Deployment", KEY) is not None
    valid = next(c for c in server.resource["status"]["conditions"] if c["type"] == "SpecValid")
    assert valid["reason"] == "ChildRefused"


async def test_engines_are_not_changed_to_ones_that_use_an_older_claim_than_the_refused_one() -> None:
    server, cache, reconciler = operator()
    server.resource = manifest(storage={"modelCache": {"size": "1Gi"}})
    put(server, cache, server.resource)
    await reconciler.reconcile(KEY)
    put(server, cache, manifest(generation=2))
    await reconciler.reconcile(KEY)  # the claim stays
    before = cache.get("Deployment", KEY)
    server.refuses = "PersistentVolumeClaim"
    put(server, cache, manifest(generation=3, storage={"modelCache": {"size": "2Gi"}}))
    await reconciler.reconcile(KEY)
    assert cache.get("Deployment", KEY) == before


async def test_engines_that_use_a_claim_are_scaled_while_another_size_of_it_is_refused() -> None:
    server, cache, reconciler = operator()
    put(server, cache, manifest(storage={"modelCache": {"size": "1Gi"}}))
    await reconciler.reconcile(KEY)
    server.refuses = "PersistentVolumeClaim"
    put(server, cache, manifest(generation=2, replicas=5, storage={"modelCache": {"size": "2Gi"}}))
    await reconciler.reconcile(KEY)
    assert (cache.get("Deployment", KEY) or {})["spec"]["replicas"] == 5


async def test_a_child_that_is_changed_back_holds_up_neither_live_settings_nor_the_status() -> None:
    server, cache, reconciler = operator()
    await reconciler.reconcile(KEY)
    for turn in range(8):
        account = copy.deepcopy(cache.get("ServiceAccount", KEY))
        assert account is not None
        account["metadata"]["labels"] = {"by": "somebody else"}
        server.version += 1
        account["metadata"]["resourceVersion"] = str(server.version)
        cache.put("ServiceAccount", account)
        put(server, cache, manifest(generation=2 + turn, scheduler={"policy": "fcfs"}))
        await reconciler.reconcile(KEY)
    assert (cache.get("ServiceAccount", KEY) or {})["metadata"]["labels"] == {"by": "somebody else"}
    config = cache.get("ConfigMap", ("default", "chat-config"))
    assert config is not None
    assert "fcfs" in config["data"]["slidingserve.json"]
    assert server.resource["status"]["observedGeneration"] == 9


async def test_fields_that_an_older_crd_does_not_take_are_tried_once_a_minute() -> None:
    now = 0.0
    server, _, reconciler = operator(lambda: now)
    server.undeclared = {"engines"}
    for _ in range(5):
        await reconciler.reconcile(KEY)
    assert server.statuses == 1
    now, server.undeclared = 61.0, set()
    await reconciler.reconcile(KEY)
    assert server.resource["status"]["engines"] == "0/1"
    now = 200.0
    await reconciler.reconcile(KEY)
    assert server.statuses == 2


async def test_a_spec_that_cannot_be_read_makes_no_engine_uncounted() -> None:
    server, cache, reconciler = operator()
    await reconciler.reconcile(KEY)
    deployment = cache.get("Deployment", KEY)
    assert deployment is not None
    deployment["status"] = {"replicas": 1, "readyReplicas": 1}
    before = server.resource["status"]
    changed = manifest(generation=2, scheduler={"policy": "of another release"})
    changed["status"] = before
    changed["metadata"]["resourceVersion"] = str(server.version + 1)
    cache.put("SLOServe", changed)
    await reconciler.reconcile(KEY)
    status = server.resource["status"]
    assert {c["reason"] for c in status["conditions"]} >= {"InvalidSpec"}
    assert (status["engines"], status["endpoint"]) == ("1/1", before["endpoint"])


def said(server: Server, kind: str = "Ready") -> tuple[str, str, str]:
    found = next(c for c in server.resource["status"]["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize("status", [-1, 404, 410, 500, 503, 504])
@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "Service", "ServiceAccount"])
async def test_a_child_that_cannot_be_written_holds_up_neither_scale_nor_status_nor_nudges(
    kind: str, status: int
) -> None:
    now = 0.0
    server, cache, reconciler = operator(lambda: now)
    await reconciler.reconcile(KEY)
    cache.put("Pod", pod())
    child = cache.get(kind, KEY)
    assert child is not None
    cache.drop(kind, child)
    server.fails = {kind: status}
    put(server, cache, manifest(generation=2, replicas=5, scheduler={"policy": "fcfs"}))
    for _ in range(3):
        await reconciler.reconcile(KEY)
        now += 1.1
    assert (cache.get("Deployment", KEY) or {})["spec"]["replicas"] == 5
    assert server.nudged
    assert server.resource["status"]["observedGeneration"] == 2
    assert said(server)[:2] == ("False", "ChildNotWritten")
    assert f"apply {kind} chat: no endpoints of the webhook" in said(server)[2]
    server.fails = {}
    now += 10
    await reconciler.reconcile(KEY)
    assert said(server)[1] != "ChildNotWritten"


async def test_one_failure_is_no_news_and_is_tried_again_a_second_later() -> None:
    now = 0.0
    server, _, reconciler = operator(lambda: now)
    server.fails = {"PodDisruptionBudget": 500}
    assert await reconciler.reconcile(KEY) == 1.0
    assert server.statuses == 0
    now, server.fails = 1.0, {}
    await reconciler.reconcile(KEY)
    assert said(server)[1] == "Pending"


async def test_a_child_that_fails_is_asked_for_less_and_less_however_many_looks_there_are() -> None:
    now = 0.0
    server, _, reconciler = operator(lambda: now)
    server.fails = {"PodDisruptionBudget": 500}
    for _ in range(100):
        await reconciler.reconcile(KEY)
        now += 1.0
    assert server.asked.count("PodDisruptionBudget") == 7


async def test_a_server_that_does_not_answer_is_asked_for_two_children_a_pass_at_most() -> None:
    server, _, reconciler = operator(lambda: 0.0)
    kinds = ["ServiceAccount", "ConfigMap", "Service", "PodDisruptionBudget", "Deployment"]
    server.fails = dict.fromkeys(kinds, -1)
    await reconciler.reconcile(KEY)
    assert server.asked == ["ServiceAccount", "ConfigMap"]


async def test_a_child_that_cannot_be_deleted_is_named_and_holds_up_nothing() -> None:
    now = 0.0
    server, cache, reconciler = operator(lambda: now)
    put(server, cache, manifest(networkPolicy={"enabled": True}))
    await reconciler.reconcile(KEY)
    server.fails = {"NetworkPolicy": 500}
    put(server, cache, manifest(generation=2))
    for _ in range(3):
        await reconciler.reconcile(KEY)
        now += 1.1
    assert said(server)[1:] == ("ChildNotWritten", "delete NetworkPolicy chat: no endpoints of the webhook")
    assert server.resource["status"]["observedGeneration"] == 2


async def test_a_deployment_that_a_finalizer_holds_is_not_ready_and_says_who_holds_it() -> None:
    server, cache, reconciler = operator()
    await reconciler.reconcile(KEY)
    deployment = copy.deepcopy(cache.get("Deployment", KEY))
    assert deployment is not None
    server.version += 1
    deployment["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["audit.example/hold"],
        "resourceVersion": str(server.version),
    }
    deployment["status"] = {
        "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
    }  # fmt: skip
    cache.put("Deployment", deployment)
    cache.put("Pod", pod())
    await reconciler.reconcile(KEY)
    status, reason, message = said(server)
    assert (status, reason) == ("False", "ChildBeingDeleted")
    assert "Deployment chat" in message
    assert "audit.example/hold" in message
    assert said(server, "Progressing")[:2] == ("False", "Blocked")


async def test_a_contested_deployment_is_not_ready_and_names_the_writer_and_the_field_once() -> None:
    now = 0.0
    server, cache, reconciler = operator(lambda: now)
    reconciler._children.contests = Contests(lambda: now)
    await reconciler.reconcile(KEY)
    for _ in range(40):
        foreign = copy.deepcopy(server.objects["Deployment", "chat"])
        server.version += 1
        foreign["metadata"] |= {
            "resourceVersion": str(server.version),
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update",
                 "fieldsV1": {"f:status": {"f:replicas": {}}}},
                {"manager": "tuner", "operation": "Update", "fieldsV1": {"f:spec": {"f:template": {"f:spec": {
                    "f:containers": {'k:{"name":"main"}': {"f:args": {}}}}}}}},
            ],
        }  # fmt: skip
        foreign["spec"]["template"]["spec"]["containers"][0]["args"] = ["--mine"]
        server.objects["Deployment", "chat"] = foreign
        cache.put("Deployment", foreign)
        await reconciler.reconcile(KEY)
        now += 4
    status, reason, message = said(server)
    assert (status, reason) == ("False", "ChildContested")
    assert "spec.template.spec.containers[main].args" in message
    assert "field manager tuner" in message
    told = [event for event in server.events if event["reason"] == "ChildContested"]
    assert len(told) == 1
    assert "field manager tuner" in told[0]["message"]
    for _ in range(10):  # the writer is gone
        now += 10
        await reconciler.reconcile(KEY)
    assert said(server)[1] == "Pending"


async def test_pods_that_our_deployment_did_not_make_are_neither_counted_nor_nudged_nor_listed() -> None:
    server, cache, reconciler = operator()
    stranger = pod("stranger")
    del stranger["metadata"]["ownerReferences"]
    of_another = pod("other")
    of_another["metadata"]["ownerReferences"][0]["name"] = "other-5d4"
    job = pod("job")
    job["metadata"]["ownerReferences"][0]["kind"] = "Job"
    for one in (stranger, of_another, job):
        cache.put("Pod", one)
    await reconciler.reconcile(KEY)
    assert server.resource["status"]["pods"] == []
    assert server.nudged == []
    assert said(server, "ConfigApplied")[1] == "NoPods"


@pytest.mark.parametrize("unseen", ["PersistentVolumeClaim", "PodDisruptionBudget", "Pod"])
async def test_a_kind_that_may_not_be_read_is_named_and_the_engines_are_scaled(unseen: str) -> None:
    server, cache, reconciler = operator()
    put(server, cache, manifest(storage={"modelCache": {"size": "1Gi"}}))
    await reconciler.reconcile(KEY)
    if unseen != "Pod":
        name = "chat-model-cache" if unseen == "PersistentVolumeClaim" else "chat"
        cache.drop(unseen, cache.get(unseen, ("default", name)) or {})  # after a start nothing is known of it
    kube: Any = server
    anew = Reconciler(
        kube, cache, Engine(), Telemetry(), Images("e", "c"), poll_seconds=15,
        unseen=lambda _, kind: "list: forbidden" if kind == unseen else "",
    )  # fmt: skip
    put(server, cache, manifest(generation=2, replicas=5, storage={"modelCache": {"size": "1Gi"}}))
    await anew.reconcile(KEY)
    assert said(server)[1] == "Forbidden"
    assert "list: forbidden" in said(server)[2]
    assert (cache.get("Deployment", KEY) or {})["spec"]["replicas"] == 5
    assert server.resource["status"]["observedGeneration"] == 2
