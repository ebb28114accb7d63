"""The chart's rights against what the operator asks for, by the audit log: none unused, none missing.

Everything that the operator can do is done here once: make, repair and prune a child of every kind, find each
name taken, nudge a pod, hold a Lease, compare the CRD. (The e2e tests hold their own log against the chart.)
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml
from sloserve_operator.desired.names import MANAGED_BY, MANAGER, NAME_LABEL

from tests.chart.helm import CHART, helm
from tests.contract.space import Operator, Space, manifest, until
from tests.contract.test_live import run_pod
from tests.rights import UNASKED, granted, requests

pytestmark = pytest.mark.cluster

ADDRESS = "127.44.0.1"  # of the one pod, as its status says: the engine there is this test
# Every kind of child, by the suffix of its name, with a spec that makes it.
FULL: dict[str, Any] = {
    "storage": {"modelCache": {"size": "1Gi"}},
    "networkPolicy": {"enabled": True},
}
SUFFIX = {"ConfigMap": "-config", "PersistentVolumeClaim": "-model-cache"}
KINDS: dict[str, dict[str, Any]] = {
    "ServiceAccount": {"apiVersion": "v1"},
    "ConfigMap": {"apiVersion": "v1"},
    "PersistentVolumeClaim": {
        "apiVersion": "v1",
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "Service": {"apiVersion": "v1", "spec": {"ports": [{"port": 1}]}},
    "NetworkPolicy": {"apiVersion": "networking.k8s.io/v1", "spec": {"podSelector": {}}},
    "PodDisruptionBudget": {"apiVersion": "policy/v1", "spec": {"maxUnavailable": 1}},
    "Deployment": {
        "apiVersion": "apps/v1",
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "main", "image": "none:1"}]},
            },
        },
    },
}
ELECTION = {"LEADER_ELECTION": "true", "LEASE_NAME": "sloserve", "LEASE_SECONDS": "15"}


class State(BaseHTTPRequestHandler):
    """An engine that goes on saying that it runs other settings than those written."""

    def do_GET(self) -> None:
        body = json.dumps({"applied": {"revision": "another", "generation": 1}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def engine() -> Iterator[None]:
    server = ThreadingHTTPServer((ADDRESS, 8000), State)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def stray(kind: str, owner: dict[str, Any]) -> dict[str, Any]:
    """A child that the resource does not ask for, such as an earlier operator may have left."""
    metadata = {
        "name": f"stray-{kind.lower()}",
        "labels": {MANAGED_BY: MANAGER, NAME_LABEL: "chat"},
        "ownerReferences": [owner],
    }
    return {"kind": kind, "metadata": metadata, **KINDS[kind]}


def do_everything(space: Space) -> None:
    """Bring the operator to each of its requests; returns when their effects are there."""
    for kind, body in KINDS.items():  # for each kind a resource that finds the name of that child taken
        name = f"taken-{kind.lower()}"
        space.apply({"kind": kind, "metadata": {"name": f"{name}{SUFFIX.get(kind, '')}"}, **body})
        space.apply(manifest(name, **FULL))
    run_pod(space, podIP=ADDRESS, podIPs=[{"ip": ADDRESS}])
    space.apply(manifest(**FULL))
    space.reason("chat", "ScaledToZero")
    for child in space.children("chat"):  # a label of ours that somebody changes is applied again
        space.run("label", "--overwrite", child, "app.kubernetes.io/part-of=somebody")
    resource = space.must("sloserve", "chat")
    owner = {
        **{key: resource[key] for key in ("apiVersion", "kind")},
        **{key: resource["metadata"][key] for key in ("name", "uid")},
        "controller": True,
    }
    for kind in KINDS:
        space.apply(stray(kind, owner))
    space.patch("chat", {"scheduler": {"alpha": 0.5}})
    kept = ["persistentvolumeclaim/stray-persistentvolumeclaim"]  # a claim holds data
    until(lambda: [c for c in space.children("chat") if "stray" in c] == kept, "the strays are gone", 60)
    for kind in KINDS:
        assert kind in space.reason(f"taken-{kind.lower()}", "NameCollision")["message"]


def roles(space: Space, values: dict[str, Any]) -> list[dict[str, Any]]:
    done = helm("template", "sloserve", str(CHART), "-n", space.name, "--kube-version=1.34.3", values=values)
    assert done.returncode == 0, done.stderr
    return [doc for doc in yaml.safe_load_all(done.stdout) if doc]


def test_the_chart_grants_what_the_operator_asks_for_and_nothing_else(space: Space, engine: None) -> None:
    values = {"watchNamespaces": [], "leaderElection": {"enabled": True}}
    operator = Operator(space, values=values, extra={**ELECTION, "LEASE_NAMESPACE": space.name})
    log = space.cluster.audit_log()
    assert log is not None
    mark = operator.mark()
    operator.start()
    try:
        do_everything(space)
        expected = granted(roles(space, values)) - UNASKED

        def used() -> set[str]:
            return {right for right, code in requests(log, operator.user, mark) if code not in (401, 403)}

        with contextlib.suppress(TimeoutError):  # the Lease is renewed, and the CRD read, after some seconds
            until(lambda: used() >= expected, "every right is used", 30)
        assert sorted(expected - used()) == [], "granted and not used"
        asked = {right for right, _ in requests(log, operator.user, mark)}
        assert sorted(asked - expected) == [], "asked for and not granted"
    finally:
        operator.stop()
        space.run("delete", "sloserves", "--all", "--timeout=60s")
        space.cluster.kubectl("delete", "clusterrole,clusterrolebinding", f"{space.name}-sloserve-operator")


OWNERS = "object.metadata.?ownerReferences.orValue([])"
MAY = (
    "authorizer.group('sloserve.dev').resource('sloserves').subresource('finalizers')"
    ".namespace(object.metadata.namespace).name(o.name).check('update').allowed()"
)


@pytest.fixture
def owners_checked(space: Space) -> Iterator[None]:
    """What OpenShift's OwnerReferencesPermissionEnforcement asks, as a policy for this namespace alone."""
    rules = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["*"]}
    blocks = "o.kind != 'SLOServe' || !o.?blockOwnerDeletion.orValue(false)"
    api = "admissionregistration.k8s.io/v1"
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": space.name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [rules],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
            },
            "validations": [
                {
                    "expression": f"{OWNERS}.all(o, {blocks} || {MAY})",
                    "message": "cannot set blockOwnerDeletion",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": space.name},
        "spec": {"policyName": space.name, "validationActions": ["Deny"]},
    }
    for obj in (policy, binding):
        space.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
    owner = {"apiVersion": "sloserve.dev/v1alpha1", "kind": "SLOServe", "name": "a", "uid": "b"}
    probe = json.dumps(stray("ConfigMap", {**owner, "blockOwnerDeletion": True}))
    nobody = f"{space.name}:nobody"
    space.run("create", "role", "nobody", "--verb=create", "--resource=configmaps")
    space.run("create", "rolebinding", "nobody", "--role=nobody", f"--serviceaccount={nobody}")
    words = (
        "-n",
        space.name,
        "create",
        "--dry-run=server",
        "-f",
        "-",
        f"--as=system:serviceaccount:{nobody}",
    )

    def refused() -> bool:
        return "cannot set blockOwnerDeletion" in space.cluster.kubectl_result(*words, stdin=probe).stderr

    until(refused, "the policy is in force")
    yield
    kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    space.cluster.kubectl("delete", kinds, space.name)


def test_where_owners_are_checked_the_right_to_finalizers_makes_children_possible(
    space: Space, owners_checked: None, operator: Operator
) -> None:
    space.apply(manifest("before"))
    space.reason("before", "ScaledToZero")
    role = space.must("role", f"{space.name}-sloserve-operator")
    rules = [rule for rule in role["rules"] if "sloserves/finalizers" not in rule["resources"]]
    assert len(rules) == len(role["rules"]) - 1
    space.run("patch", "role", role["metadata"]["name"], "--type=merge", "-p", json.dumps({"rules": rules}))
    space.apply(manifest("after"))
    assert "cannot set blockOwnerDeletion" in space.reason("after", "Forbidden")["message"]
