"""Whole passes over a server in memory: what a race or a refused child must not hold up."""

import copy
import time
from collections.abc import Callable
from typing import Any

from sloserve_operator.api.engine import EngineState
from sloserve_operator.cache import Cache
from sloserve_operator.kube import KubeError
from sloserve_operator.reconcile import Images, Reconciler
from sloserve_operator.telemetry import Telemetry

from tests.unit.operator.objects import manifest, pod, state

KEY = ("default", "chat")


class Server:
    """Takes every write but of the kinds in `refuses`; `race` comes before the next status."""

    def __init__(self) -> None:
        self.version, self.refuses, self.breaks = 1000, "", ""
        self.asked: list[str] = []
        self.status = 500
        self.resource = manifest()
        self.race: dict[str, Any] | None = None
        self.nudged: list[str] = []
        self.undeclared: set[str] = set()
        self.statuses = 0
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}

    def _stored(self, obj: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(obj["kind"])
        if obj["kind"] == self.breaks or self.breaks == "all":
            raise KubeError(f"create {obj['kind']} chat", self.status, "failed calling webhook")
        if obj["kind"] == self.refuses:
            raise KubeError("apply", 422, "spec.template is wrong")
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

    async def nudge(self, namespace: str, name: str, value: str) -> None:
        self.nudged.append(value)

    async def event(self, event: dict[str, Any]) -> None:
        pass

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
    changed = manifest(generation=2, replicas=5, storage={"modelCache": {"size": "1Gi"}})
    changed["metadata"]["resourceVersion"] = str(server.version + 1)
    cache.put("SLOServe", changed)
    await reconciler.reconcile(KEY)
    assert cache.get("Deployment", KEY) == before


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


def condition_of(server: Server, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in server.resource["status"]["conditions"] if c["type"] == kind)
    return found


async def test_a_write_that_fails_holds_up_neither_the_other_children_nor_scale_nor_status() -> None:
    now = 0.0
    server, cache, reconciler = operator(lambda: now)
    await reconciler.reconcile(KEY)
    budget = cache.get("PodDisruptionBudget", KEY)
    assert budget is not None
    cache.drop("PodDisruptionBudget", budget)
    server.breaks = "PodDisruptionBudget"
    put(server, cache, manifest(generation=2, replicas=5))
    assert await reconciler.reconcile(KEY) == 1.0, "the write is tried again soon"
    assert (cache.get("Deployment", KEY) or {})["spec"]["replicas"] == 5
    assert server.resource["status"]["observedGeneration"] == 2
    assert condition_of(server, "Ready")["reason"] != "ChildNotWritten", "a server that restarts is no news"
    now = 16.0
    await reconciler.reconcile(KEY)
    ready = condition_of(server, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ChildNotWritten")
    assert ready["message"] == "create PodDisruptionBudget chat: failed calling webhook"
    server.breaks = ""
    now = 80.0
    assert await reconciler.reconcile(KEY) == 15
    assert condition_of(server, "Ready")["reason"] != "ChildNotWritten"


async def test_a_server_that_answers_nothing_is_not_asked_for_every_child() -> None:
    server, _, reconciler = operator()
    server.breaks, server.status = "all", 0
    await reconciler.reconcile(KEY)
    assert len(server.asked) == 2, "each costs a whole deadline"


async def test_a_deployment_on_its_way_out_is_not_ready_and_names_its_finalizers() -> None:
    server, cache, reconciler = operator()
    await reconciler.reconcile(KEY)
    leaving = copy.deepcopy(cache.get("Deployment", KEY))
    assert leaving is not None
    server.version += 1
    leaving["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["example.com/hold"],
        "resourceVersion": str(server.version),
    }
    cache.put("Deployment", leaving)
    assert await reconciler.reconcile(KEY) == 2.0
    ready = condition_of(server, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WaitingForCleanup")
    assert "held by example.com/hold" in ready["message"]


async def test_a_deployment_that_is_changed_back_is_not_ready_and_says_who_wrote_it() -> None:
    now = 0.0
    server, cache, reconciler = operator(lambda: now)
    await reconciler.reconcile(KEY)

    async def fight() -> None:
        theirs = copy.deepcopy(cache.get("Deployment", KEY))
        assert theirs is not None
        theirs["spec"]["template"]["spec"]["containers"][0]["args"] = ["--foreign"]
        server.version += 1
        entry = {"manager": "gitops", "operation": "Update", "time": "2026-01-01T00:00:00Z"}
        theirs["metadata"] |= {"resourceVersion": str(server.version), "managedFields": [entry]}
        server.objects["Deployment", "chat"] = theirs
        cache.put("Deployment", theirs)
        await reconciler.reconcile(KEY)

    for _ in range(6):
        await fight()
    ready = condition_of(server, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Contested")
    assert "spec.template.spec.containers" in ready["message"]
    assert "last by field manager 'gitops'" in ready["message"]
    now = 61.0
    for _ in range(6):
        await fight()
        assert condition_of(server, "Ready")["reason"] == "Contested", "no flapping while it lasts"


async def test_a_pod_that_only_bears_our_labels_is_neither_counted_nor_nudged() -> None:
    server, cache, reconciler = operator()
    stray = pod("stray")
    stray["metadata"]["ownerReferences"] = []
    other = pod("other")
    other["metadata"]["ownerReferences"][0]["name"] = "somebody-6b7f"
    for one in (stray, other):
        cache.put("Pod", one)
    await reconciler.reconcile(KEY)
    assert server.resource["status"].get("pods", []) == []
    assert server.nudged == []
