"""What the API server stores: the manifest as it was written, and objects from before a rule came."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from sloserve_operator.api.crd import document
from sloserve_operator.api.rules import VALIDATIONS

from tests.cluster.api import Cluster
from tests.contract.rules import EXAMPLES
from tests.contract.space import manifest, until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crd")]

MINIMAL = {
    **manifest("minimal"),
    "spec": {
        "model": {"uri": "hf://example-org/Model-8B", "tokenSecretRef": {"name": "hf"}},
        "engine": {
            "loraAdapters": [{"name": "a", "uri": "hf://example-org/Adapter"}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "B"}],
            "envFrom": [{"secretRef": {"name": "s"}}],
            "imagePullSecrets": [{"name": "registry"}],
        },
        "sloClasses": [{"name": "dialogue", "ttft": {"milliseconds": 600}, "tbtMilliseconds": 40}],
        "networkPolicy": {"allowFrom": [{"podSelector": {"matchExpressions": []}}, {"podSelector": {}}]},
        "podTemplate": {"spec": {"containers": [{"name": "log", "image": "x", "ports": [{}]}]}},
    },
}
DECLARED = {
    "minimal": MINIMAL,
    **{
        path.name: one
        for path in EXAMPLES
        for one in yaml.safe_load_all(path.read_text())
        if one["kind"] == "SLOServe"
    },
}


def differences(wanted: Any, live: Any, path: str = "spec") -> list[str]:
    """As a diff sees it that takes a list as one value and ignores keys that only the server has."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return [found for key in wanted for found in differences(wanted[key], live.get(key), f"{path}.{key}")]
    return [] if wanted == live else [f"{path}: wanted {wanted}, stored {live}"]


@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_object_equals_the_stored_one(cluster: Cluster, name: str) -> None:
    given = json.dumps(DECLARED[name])
    stored = json.loads(cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=given))
    assert differences(DECLARED[name]["spec"], stored["spec"]) == []


# Names of its own: `kubectl get sloserves` of other tests must not find this one.
GROUP, KIND, PLURAL = "before.sloserve.dev", "Older", "olders"
OLDER = {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND}
BAD = {"extraArgs": ["--spec-method=ngram", "--hos=0.0.0.0"], "sharedMemorySize": "2Gi", "accelerator": "cpu"}
BAD["resources"] = {"limits": {"memory": "64Mi"}}  # type: ignore[assignment]


def bare(node: Any) -> Any:
    """A schema without rules."""
    if isinstance(node, dict):
        return {key: bare(value) for key, value in node.items() if key != VALIDATIONS}
    return [bare(value) for value in node] if isinstance(node, list) else node


@pytest.fixture
def before(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Objects that today's rules would refuse, stored before the rules came; a CRD of a group of its own."""
    crd = copy.deepcopy(document())
    crd["metadata"]["name"] = kind = f"{PLURAL}.{GROUP}"
    crd["spec"]["group"] = GROUP
    crd["spec"]["names"] = {"kind": KIND, "plural": PLURAL}
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(bare(crd)))
    try:
        for name, changes in (("default", {}), ("chat", {"engine": BAD})):
            stored = {**manifest(name, **changes), **OLDER}
            text = json.dumps(stored)
            until(
                lambda text=text: (
                    cluster.kubectl_result(  # type: ignore[misc]
                        "-n", namespace, "apply", "-f", "-", stdin=text
                    ).returncode
                    == 0
                ),
                "an object without rules",
            )
            status = '{"status": {"replicas": 0}}'
            cluster.kubectl(
                "-n", namespace, "patch", kind, name, "--subresource=status", "--type=merge", "-p", status
            )
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(crd))
        refused = json.dumps({**manifest("other", engine=BAD), **OLDER})
        until(
            lambda: (
                cluster.kubectl_result(
                    "-n", namespace, "create", "--dry-run=server", "-f", "-", stdin=refused
                ).returncode
                != 0
            ),
            "the rules in force",
        )
        yield kind
    finally:
        cluster.kubectl("delete", "crd", kind, "--ignore-not-found", "--timeout=60s")


def test_an_object_from_before_a_rule_still_scales_and_is_told_its_state(
    cluster: Cluster, namespace: str, before: str
) -> None:
    for name in ("default", "chat"):
        on = ("-n", namespace)
        cluster.kubectl(*on, "scale", before, name, "--replicas=3")
        status = '{"status": {"replicas": 3}}'
        cluster.kubectl(*on, "patch", before, name, "--subresource=status", "--type=merge", "-p", status)
        cluster.kubectl(*on, "annotate", before, name, "touched=1")
        hot = '{"spec": {"scheduler": {"alpha": 0.5}}}'
        cluster.kubectl(*on, "patch", before, name, "--type=merge", "-p", hot)
        found = json.loads(cluster.kubectl(*on, "get", before, name, "-o", "json"))
        assert (found["spec"]["replicas"], found["status"]["replicas"]) == (3, 3)
    changed = '{"spec": {"engine": {"extraArgs": ["--spec-method=mtp"]}}}'
    told = cluster.kubectl_result("-n", namespace, "patch", before, "chat", "--type=merge", "-p", changed)
    assert "speculative decoding gives a step no fixed token count" in told.stderr
