"""Namespaces with a range of users of their own, as OpenShift makes them: what asks for another is refused.

A ValidatingAdmissionPolicy says on the real API server what OpenShift's restricted-v2 says of user and group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.space import Object, Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

LOWEST = 1000970000
LABEL = "users.example.com/range"
IDS = ("runAsUser", "runAsGroup", "fsGroup")
NULLS: Object = {"spec": {"containers": [{"name": "main"}], "securityContext": dict.fromkeys(IDS)}}
DIRECTIVE: Object = {
    "spec": {
        "containers": [{"name": "main"}],
        "securityContext": {
            "$patch": "replace",
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
}


def rule(field: str) -> Object:
    path = f"object.spec.securityContext.{field}"
    message = (
        f".spec.securityContext.{field}: Invalid value: must be in the ranges: [{LOWEST}, {LOWEST + 9999}]"
    )
    return {"expression": f"!has({path}) || {path} >= {LOWEST}", "message": message}


@pytest.fixture(scope="module")
def policy(cluster: Any) -> Iterator[None]:
    """The rule, for namespaces with our label."""
    name, group = "users-of-a-range", "admissionregistration.k8s.io/v1"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    chosen = {"namespaceSelector": {"matchLabels": {LABEL: "on"}}}
    objects = [
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [pods]},
                "validations": [rule("runAsUser"), rule("fsGroup")],
            },
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": chosen},
        },
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.kubectl("apply", "-f", "-", stdin=text)
    yield
    cluster.kubectl("delete", "-f", "-", stdin=text)


@pytest.fixture
def ranged(space: Space, policy: None) -> Space:
    """A namespace with users of its own, where the rule is in force."""
    space.run("label", "namespace", space.name, f"{LABEL}=on")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {
            "securityContext": {"runAsUser": 1000},
            "containers": [{"name": "main", "image": "x"}],
        },
    }

    def refused() -> bool:
        words = ("-n", space.name, "create", "--dry-run=server", "-f", "-")
        return "must be in the ranges" in space.cluster.kubectl_result(*words, stdin=json.dumps(pod)).stderr

    until(refused, "the rule in force")
    return space


def security(space: Space, name: str = "chat") -> Object:
    """The security context of the pods, once the operator has looked at the newest spec."""

    def seen() -> bool:
        found = space.must("sloserve", name)
        return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])

    until(seen, "a look")
    template = space.must("deployment", name)["spec"]["template"]
    return dict(template["spec"]["securityContext"])


def no_ids(space: Space, name: str) -> bool:
    return not set(IDS) & security(space, name).keys()


def has_a_pod(space: Space, name: str = "chat") -> bool:
    return bool(space.run("get", "pods", "-l", f"sloserve.dev/name={name}", "-o", "name"))


def engine(**fields: Any) -> Object:
    return {"accelerator": "cpu", "drainTimeoutSeconds": 0, **fields}


def test_a_user_of_ours_is_refused_there_and_the_status_names_the_field_that_leaves_it_to_the_cluster(
    ranged: Space, operator: Operator
) -> None:
    ranged.apply(manifest(replicas=1))
    message = ranged.reason("chat", "ReplicaFailure", seconds=60)["message"]
    assert "must be in the ranges" in message
    assert "set spec.engine.runAs: cluster" in message
    ranged.patch("chat", {"engine": {"runAs": "cluster"}})
    until(lambda: has_a_pod(ranged), "a pod that the cluster takes", 60)
    assert security(ranged) == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_an_operator_that_leaves_users_to_the_cluster_mends_engines_that_were_refused(
    ranged: Space, operator: Operator
) -> None:
    ranged.apply(manifest(replicas=1))
    ranged.reason("chat", "ReplicaFailure", seconds=60)
    operator.stop()
    operator.extra["RUN_AS"] = "cluster"
    operator.start()
    until(lambda: has_a_pod(ranged), "a pod that the cluster takes", 60)


ARRIVALS = {
    "nulls-made": (NULLS, False),
    "nulls-added": (NULLS, True),
    "directive-made": (DIRECTIVE, False),
    "directive-added": (DIRECTIVE, True),
}


def test_a_pod_template_that_takes_the_ids_out_works_however_it_arrives(
    ranged: Space, operator: Operator
) -> None:
    """`kubectl apply` drops a null from what it changes; from what it makes it does not."""
    for name, (_, added) in ARRIVALS.items():
        if added:
            ranged.apply(manifest(name, replicas=1))
    for name, (_, added) in ARRIVALS.items():
        if added:
            ranged.reason(name, "ReplicaFailure", seconds=60)
    for _ in range(2):
        for name, (template, _) in ARRIVALS.items():
            ranged.apply(manifest(name, replicas=1, podTemplate=template))
    for name, (template, _) in ARRIVALS.items():
        until(lambda: no_ids(ranged, name), f"pods of {name} without ids")  # noqa: B023
        until(lambda: has_a_pod(ranged, name), f"a pod of {name} that the cluster takes", 60)  # noqa: B023
        ranged.apply(manifest(name, replicas=1, podTemplate=template, engine=engine(maxModelLength=2048)))
        assert no_ids(ranged, name)
