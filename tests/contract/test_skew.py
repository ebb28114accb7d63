"""A CRD of another release than the operator's: told in its log, its metrics and its health."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sloserve_operator.api import CRD, SCHEMA_ANNOTATION, SCHEMA_VERSION
from sloserve_operator.api.crd import document, text

from tests.contract.space import Operator, Space, free_port, manifest, until

pytestmark = pytest.mark.cluster


def mark_crd(space: Space, version: int | None) -> None:
    change = {"metadata": {"annotations": {SCHEMA_ANNOTATION: None if version is None else str(version)}}}
    space.cluster.kubectl("patch", "crd", CRD, "--type=merge", "-p", json.dumps(change))


@contextmanager
def crd_of(space: Space, version: int | None) -> Iterator[None]:
    """The CRD bears another version for a while."""
    mark_crd(space, version)
    try:
        yield
    finally:
        mark_crd(space, SCHEMA_VERSION)


def skew(operator: Operator) -> float:
    _, page = operator.fetch("/metrics", "METRICS_PORT")
    return next(
        float(line.split()[1]) for line in page.splitlines() if line.startswith("sloserve_schema_skew ")
    )


@pytest.fixture
def cluster_wide(space: Space) -> Iterator[Operator]:
    """An operator with the rights of a release that serves every namespace; it still serves only this one."""
    ports = {"HEALTH_PORT": str(free_port()), "METRICS_PORT": str(free_port())}
    found = Operator(space, values={"watchNamespaces": []}, extra={**ports, "RESYNC_SECONDS": "1"})
    yield found
    if found.process:
        found.stop()
    space.cluster.kubectl("delete", "clusterrole,clusterrolebinding", f"{space.name}-sloserve-operator")


def test_an_older_and_a_newer_crd_are_told_at_the_start_and_when_they_come(
    space: Space, cluster_wide: Operator
) -> None:
    operator = cluster_wide
    with crd_of(space, None):
        operator.start()
        told = until(lambda: operator.said("CRD older than operator"), "an older CRD is told at the start")
        assert f"has schema version 1, this operator has {SCHEMA_VERSION}" in told["remedy"]
        assert skew(operator) == 1 - SCHEMA_VERSION
        status, page = operator.fetch("/readyz")
        assert (status, "drops fields" in page) == (200, True), "told, and still ready"
    until(lambda: operator.said("CRD and operator have one schema version"), "and that it was upgraded")
    assert skew(operator) == 0
    with crd_of(space, SCHEMA_VERSION + 1):
        told = until(lambda: operator.said("CRD newer than operator"), "a newer one")
        assert told["remedy"].endswith("Upgrade the operator")
        assert skew(operator) == 1
        space.apply(manifest())
        space.reason("chat", "ScaledToZero")  # and it works on
    until(lambda: skew(operator) == 0, "all is well again")
    assert "schema version" not in operator.fetch("/readyz")[1]


def test_a_status_field_that_an_older_crd_does_not_know_is_left_out_and_the_rest_written(
    space: Space, operator: Operator
) -> None:
    older = document()
    (version,) = older["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["endpoint"]
    apply = ("apply", "--server-side", "--force-conflicts", "--field-manager=contract-tests", "-f", "-")
    space.cluster.kubectl(*apply, stdin=json.dumps(older))
    try:
        until(lambda: "endpoint" not in space.run("explain", "sloserve.status"), "the older CRD is served")
        space.apply(manifest())
        space.reason("chat", "ScaledToZero")
        assert "endpoint" not in space.must("sloserve", "chat")["status"]
        assert operator.said("reconcile failed") is None
    finally:
        space.cluster.kubectl(*apply, stdin=text())
    until(lambda: "endpoint" in space.must("sloserve", "chat")["status"], "with the CRD it comes", 90)


def test_an_operator_of_some_namespaces_says_that_it_cannot_compare(space: Space, operator: Operator) -> None:
    told = until(lambda: operator.said("not compared"), "the sentence")
    assert "may not read CRDs, as with watchNamespaces" in told["why"]
    assert operator.log.read_text().count('"not compared"') == 1
    assert "Traceback" not in operator.log.read_text()


def test_the_policy_of_engines_lets_in_the_operator_of_this_release(space: Space) -> None:
    """As an object: the network of the local cluster enforces no policy."""
    labels = "app.kubernetes.io/name=sloserve,app.kubernetes.io/instance=mine"
    operator = Operator(space, extra={"OPERATOR_NAMESPACE": "sloserve-system", "OPERATOR_LABELS": labels})
    operator.start()
    try:
        space.apply(manifest(networkPolicy={"enabled": True}))
        policy = until(lambda: space.get("networkpolicy", "chat"), "the policy")
    finally:
        operator.stop()
    (ingress,) = policy["spec"]["ingress"]
    assert ingress["ports"] == [{"port": 8000, "protocol": "TCP"}]
    assert ingress["from"][0] == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "sloserve-system"}},
        "podSelector": {
            "matchLabels": {"app.kubernetes.io/name": "sloserve", "app.kubernetes.io/instance": "mine"}
        },
    }
