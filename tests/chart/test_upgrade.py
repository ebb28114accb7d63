"""From the release before this one to today's, back, and away, with engines that run all the while.

tests/data/previous holds the previous chart, CRD and operator. Both operators run as processes beside the
cluster, with the account that the chart makes; in their Deployments is a stand-in, and the engines' image is
another, which answers the probes.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from sloserve_operator.api import SCHEMA_ANNOTATION, SCHEMA_VERSION
from sloserve_operator.api.crd import document
from sloserve_operator.skew import UNMARKED

from tests.chart.helm import CHART, ROOT, helm
from tests.chart.release import CRD, STAND_IN, Release
from tests.cluster.runtime import binary_image
from tests.contract.space import Object, Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

PREVIOUS = ROOT / "tests" / "data" / "previous"
PREVIOUS_CHART = PREVIOUS / "sloserve-0.1.0.tgz"
ENGINE = "localhost/slidingserve/engine-stand-in:1"
ANSWERS: dict[str, object] = {
    "Entrypoint": [],
    "User": "1000",
    "Env": ["PATH=/usr/local/bin"],
}


class Installed(Operator):
    """An operator with the account of a release instead of one made for it."""

    def grant(self) -> Path:
        return self.login()


@dataclass
class Upgrade:
    """A release, and the operator of the moment."""

    release: Release
    space: Space
    operator: Installed | None = None

    def run(self, name: str, code: Path | None = None) -> Installed:
        """Stop the operator that runs, and start another."""
        self.stop()
        extra = {"POLL_SECONDS": "1", "RESYNC_SECONDS": "2"}
        self.operator = Installed(self.space, ("none:1", ENGINE), extra, name=name, code=code)
        self.operator.start()
        return self.operator

    def stop(self) -> None:
        """As a pod ends. The previous operator sometimes hung when the CRD had changed under its watches."""
        if self.operator and self.operator.process:
            old = self.operator.code is not None
            assert self.operator.stop(signal.SIGKILL if old else signal.SIGTERM) == (-9 if old else 0)

    def pods(self) -> dict[str, tuple[str, int]]:
        """Of each engine pod: uid and restarts."""
        found = json.loads(self.space.run("get", "pods", "-l", "sloserve.dev/name", "-o", "json"))["items"]
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                sum(c["restartCount"] for c in pod["status"]["containerStatuses"]),
            )
            for pod in found
        }

    def templates(self) -> dict[str, Object]:
        found = json.loads(self.space.run("get", "deployments", "-l", "sloserve.dev/name", "-o", "json"))
        return {item["metadata"]["name"]: item["spec"]["template"] for item in found["items"]}

    def resource(self, name: str) -> tuple[str, Object]:
        """Uid and spec."""
        found = self.space.must("sloserve", name)
        return found["metadata"]["uid"], found["spec"]


def previous_crd() -> dict[str, Any]:
    """The CRD of the previous chart."""
    done = helm("template", "sloserve", str(PREVIOUS_CHART), "--kube-version=1.34", values={})
    (found,) = (d for d in yaml.safe_load_all(done.stdout) if d["kind"] == "CustomResourceDefinition")
    return dict(found)


@pytest.fixture
def upgrade(release: Release, tmp_path: Path) -> Iterator[Upgrade]:
    cluster = release.cluster
    strict = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", release.namespace, strict)
    cluster.load_image(binary_image("probe", ENGINE, ANSWERS, "/usr/local/bin/slidingserve"), ENGINE)
    # Whatever CRD is there: an install that takes it over would leave an annotation that its own has not.
    apply = ("apply", "--server-side", "--force-conflicts", "--field-manager=chart-tests", "-f", "-")
    cluster.kubectl(*apply, stdin=json.dumps(previous_crd()))
    cluster.kubectl("annotate", "crd", CRD, f"{SCHEMA_ANNOTATION}-")
    made = Upgrade(release, Space(cluster, release.namespace, tmp_path))
    yield made
    made.stop()
    cluster.kubectl(*apply, stdin=(ROOT / "crds" / f"{CRD}.yaml").read_text())
    made.space.run("delete", "sloserves", "--all", "--timeout=60s")


def schema_version(release: Release) -> str | None:
    found = json.loads(release.cluster.kubectl("get", "crd", CRD, "-o", "json"))
    value: str | None = found["metadata"]["annotations"].get(SCHEMA_ANNOTATION)
    return value


def within(old: Any, new: Any) -> bool:
    """Whether all that was is still there."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and within(value, new[key]) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(within, old, new))
    return bool(old == new)


def test_neither_upgrade_nor_rollback_nor_removal_restarts_an_engine(upgrade: Upgrade) -> None:
    release, space = upgrade.release, upgrade.space

    # The previous release at work.
    release.install({}, "--wait", "--timeout=90s", chart=PREVIOUS_CHART)
    assert schema_version(release) is None
    old = PREVIOUS / "operator.zip"
    upgrade.run("previous", old)
    serving = {
        "accelerator": "cpu",
        "drainTimeoutSeconds": 1,
        "maxModelLength": 4096,
        "extraArgs": ["--seed=1"],
    }
    space.apply(manifest(engine=serving, replicas=2))
    space.apply(manifest("idle", engine={"tensorParallelSize": 2}))
    space.reason("chat", "AllReplicasReady", seconds=90)
    space.reason("idle", "ScaledToZero")
    pods, templates = upgrade.pods(), upgrade.templates()
    assert len(pods) == 2
    assert set(templates) == {"chat", "idle"}
    before = {name: upgrade.resource(name) for name in templates}

    # Upgraded: CRD, rights, operator.
    release.helm("upgrade", "--wait", "--timeout=90s", chart=CHART, values=STAND_IN)
    assert schema_version(release) == str(SCHEMA_VERSION)
    new = upgrade.run("today")
    until(lambda: space.get("pdb", "chat"), "what only today's operator makes")
    until(lambda: space.get("pdb", "idle"), "for every resource")
    space.patch("chat", {"monitoring": {"scrape": False}})
    label = "jsonpath={.metadata.labels.sloserve\\.dev/scrape}"
    until(lambda: space.run("get", "service", "chat", "-o", label) == "false", "a field that is new")
    until(lambda: space.condition("chat", "Ready").get("observedGeneration") == 2, "its status")
    assert space.condition("chat", "Ready")["reason"] == "AllReplicasReady"
    assert new.said("CRD older than operator") is None
    assert upgrade.templates() == templates
    assert upgrade.pods() == pods
    for name, (uid, spec) in before.items():
        now = upgrade.resource(name)
        assert now[0] == uid
        assert within(spec, now[1]), "the same, but for defaults of new fields"

    # Rolled back: the new field is no longer served, and is lost for good with the next write.
    release.helm("rollback", "1")
    assert schema_version(release) is None
    upgrade.run("previous", old)
    space.run("scale", "sloserve", "idle", "--replicas=0")
    space.run("annotate", "sloserve", "chat", "written=1")
    assert "monitoring" not in upgrade.resource("chat")[1]
    until(lambda: upgrade.templates() == templates, "templates as they were", 10)
    assert upgrade.pods() == pods

    release.helm("upgrade", chart=CHART, values=STAND_IN)
    upgrade.run("today")
    until(
        lambda: upgrade.resource("chat")[1]["monitoring"] == {"scrape": True}, "the default, not what was set"
    )
    until(lambda: space.run("get", "service", "chat", "-o", label) == "true", "acted on")
    assert upgrade.pods() == pods

    # Gone: the operator, not the engines.
    upgrade.stop()
    release.helm("uninstall", "--wait")
    assert schema_version(release) == str(SCHEMA_VERSION)
    assert upgrade.templates() == templates
    assert upgrade.pods() == pods


def test_a_changed_schema_has_a_version_above_the_previous_releases() -> None:
    previous = previous_crd()
    was = int(previous["metadata"]["annotations"].get(SCHEMA_ANNOTATION, UNMARKED))

    def schema(crd: dict[str, Any]) -> object:
        return [version["schema"] for version in crd["spec"]["versions"]]

    assert (schema(document()) != schema(previous)) == (was + 1 == SCHEMA_VERSION)
    assert SCHEMA_VERSION in (was, was + 1)
