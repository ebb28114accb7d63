"""The operator killed at random moments while resources change: what was cut short the next life finishes.

Ten kills in the normal tests, a hundred in `make test-soak`. The seed of what happens is printed; the moments
of the kills depend on the machine.
"""

from __future__ import annotations

import json
import random
import signal
import time

import pytest

from tests.contract.space import Object, Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

NAMES = ("red", "green", "blue")
NAME = "sloserve.dev/name"
KINDS = "deployments,services,configmaps,serviceaccounts,pvc,pdb,networkpolicies"
CHILDREN = (
    "deployment/{}",
    "service/{}",
    "configmap/{}-config",
    "serviceaccount/{}",
    "poddisruptionbudget/{}",
)
EVENTS_A_CHANGE = 3


class Chaos:
    """What is asked for, by resource: the target of its class, or None when it is deleted."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.chance = space, random.Random(seed)
        self.wanted: dict[str, int | None] = dict.fromkeys(NAMES)
        self.value, self.changes = 40, 0

    def change(self) -> None:
        """One thing that users and strangers do."""
        self.changes += 1
        name = self.chance.choice(NAMES)
        if self.wanted[name] is None:
            self.make(name)
            return
        deed = self.chance.choice((self.make, self.make, self.end, self.spoil, self.tamper))
        deed(name)

    def make(self, name: str) -> None:
        self.value += 1
        one = {"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": self.value}
        self.space.apply(manifest(name, sloClasses=[one]))
        self.wanted[name] = self.value

    def end(self, name: str) -> None:
        self.space.run("delete", "sloserve", name, "--wait=false")
        self.wanted[name] = None

    def spoil(self, name: str) -> None:
        child = self.chance.choice(CHILDREN).format(name)
        self.space.run("delete", child, "--ignore-not-found", "--wait=false")

    def tamper(self, name: str) -> None:
        if self.space.get("configmap", f"{name}-config"):
            change = json.dumps({"data": {"slidingserve.json": "{}"}})
            self.space.run("patch", "configmap", f"{name}-config", "--type=merge", "-p", change)

    def converged(self) -> bool:
        """Whether all is as asked for: contents, nothing left over, and the status of this generation."""
        found = {name_of(obj): obj for obj in everything(self.space, f"sloserves,{KINDS}")}
        ours = {name for name, obj in found.items() if NAME in obj["metadata"].get("labels", {})}
        alive = {name for name, value in self.wanted.items() if value is not None}
        if {n for n in found if n.startswith("sloserve/")} != {f"sloserve/{name}" for name in alive}:
            return False
        if ours != {child.format(name) for name in alive for child in CHILDREN}:
            return False
        for name in alive:
            obj, config = found[f"sloserve/{name}"], found[f"configmap/{name}-config"]
            classes = json.loads(config["data"]["slidingserve.json"]).get("classes", [{}])
            seen = obj.get("status", {}).get("observedGeneration")
            if seen != obj["metadata"]["generation"] or str(self.wanted[name]) not in json.dumps(classes):
                return False
        return True


def everything(space: Space, kinds: str) -> list[Object]:
    return list(json.loads(space.run("get", kinds, "-o", "json"))["items"])


def name_of(obj: Object) -> str:
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"


def survive(space: Space, operator: Operator, kills: int, seed: int, together: int = 5) -> None:
    """Kill it so many times during changes; after every few it must get all done, and then be quiet."""
    print(f"seed {seed}")
    chaos = Chaos(space, seed)
    for kill in range(1, kills + 1):
        chaos.change()
        time.sleep(chaos.chance.uniform(0, 0.7))  # the moment is the point: any is right
        assert operator.stop(signal.SIGKILL) == -signal.SIGKILL
        chaos.change()
        operator.launch()
        if kill % together == 0:
            until(chaos.converged, f"all as asked for after kill {kill}, seed {seed}", 120)
        else:
            time.sleep(chaos.chance.uniform(0.5, 2))
    until(chaos.converged, "all as asked for", 120)
    nothing_left_over(chaos)
    quiet(chaos, operator)


def nothing_left_over(chaos: Chaos) -> None:
    """Each child has its one living resource as controller, and events were told, not poured out."""
    live = {obj["metadata"]["uid"] for obj in everything(chaos.space, "sloserves")}
    for obj in everything(chaos.space, KINDS):
        if NAME in obj["metadata"].get("labels", {}):
            owners = {owner["uid"] for owner in obj["metadata"].get("ownerReferences", [])}
            assert len(owners) == 1, obj["metadata"]
            assert owners <= live, obj["metadata"]
    told = [e for e in everything(chaos.space, "events") if e["involvedObject"]["kind"] == "SLOServe"]
    assert len(told) <= EVENTS_A_CHANGE * chaos.changes
    print(f"{chaos.changes} changes, {len(told)} events")


def quiet(chaos: Chaos, operator: Operator) -> None:
    """With all done it writes nothing for what is settled, while it does something new."""
    until(lambda: operator.said("watching", after=operator.began), "it watches")
    mark = operator.mark()
    chaos.space.run("annotate", "sloserves", "--all", f"touched={chaos.value}", "--overwrite")
    chaos.make("last")
    chaos.space.reason("last", "ScaledToZero")
    rest = [line for line in operator.writes(mark) if "last" not in line and "events" not in line]
    assert rest == [], "a settled resource is left alone"


def test_killed_ten_times_during_changes_it_converges(space: Space, operator: Operator) -> None:
    survive(space, operator, kills=10, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_a_hundred_times_during_changes_it_converges(space: Space, operator: Operator) -> None:
    survive(space, operator, kills=100, seed=random.SystemRandom().randrange(10**6))
