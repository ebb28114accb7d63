"""Helm on a real cluster: install, upgrade with the CRD, removal that leaves engines alone, rights.

The operator's image is a stand-in: what the operator does is for the contract and e2e tests.
"""

import dataclasses
import json
import re
import subprocess
from typing import Any

import pytest

from dashboards.alerts import ALERTS
from tests.chart.helm import CHART, ROOT, helm
from tests.chart.release import CRD, STAND_IN, Release
from tests.cluster import monitoring, tools
from tests.cluster.api import Cluster
from tests.cluster.cache import wait_for
from tests.contract.space import until

pytestmark = pytest.mark.cluster


def operators(cluster: Cluster, namespace: str) -> list[str]:
    selector = ("-l", "app.kubernetes.io/component=operator", "-o", "jsonpath={.items[*].metadata.uid}")
    return cluster.kubectl("-n", namespace, "get", "pods", *selector).split()


def cluster_roles(cluster: Cluster) -> str:
    return cluster.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")


def commands(notes: str) -> list[str]:
    """What the notes tell the user to type: the indented lines, here documents kept whole."""
    lines = [line.removeprefix("     ") for line in notes.splitlines() if line.startswith("     ")]
    text = "\n".join(line for line in lines if not line.startswith(" " * 10))  # images are no commands
    return [part.strip() for part in re.split(r"^(?=kubectl )", text, flags=re.MULTILINE) if part.strip()]


@pytest.mark.parametrize("tool", ["helm", "helm4"])
def test_it_is_installed_as_the_notes_say_upgraded_and_removed(release: Release, tool: str) -> None:
    cluster, namespace = release.cluster, release.namespace
    release = dataclasses.replace(release, tool=tool)
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")

    values = {"watchNamespaces": [namespace], "rbac": {"aggregateToUserRoles": False}}
    notes = release.install(values, "--wait", "--timeout=90s")
    assert f"It serves SLOServe resources in: {namespace}." in notes
    wait, serve, look = commands(notes)
    for command in (wait, serve, look.replace(" --watch", "")):
        command = command.replace("kubectl", str(tools.path("kubectl")), 1)
        done = subprocess.run(
            ["bash", "-c", command], env=cluster.environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "chat" in done.stdout
    first = operators(cluster, namespace)
    assert len(first) == 1

    values = {**STAND_IN, **values, "operator": {"logLevel": "debug"}}
    release.helm("upgrade", "--wait", "--timeout=90s", chart=CHART, values=values)
    assert first != operators(cluster, namespace)

    release.helm("uninstall", "--wait")
    left = cluster.kubectl("-n", namespace, "get", "sloserves,deployments,roles", "-o", "name").split()
    assert left == ["sloserve.sloserve.dev/chat"]
    cluster.kubectl("-n", namespace, "delete", "sloserve", "chat", "--timeout=30s")


def test_the_operator_may_do_its_work_and_neither_read_secrets_nor_touch_pods(release: Release) -> None:
    """A glance at the cluster's own verdict; tests/contract/test_rights.py has each right that there is."""
    release.install({})
    given = [("create", "deployments.apps"), ("patch", "pods/status"), ("list", "pods")]
    refused = [
        *((verb, "secrets") for verb in ("get", "list", "create")),
        *((verb, "pods") for verb in ("get", "create", "patch", "delete")),
        *((verb, "sloserves.sloserve.dev") for verb in ("patch", "update", "delete")),
        *(("get", "pods/log"), ("create", "pods/exec"), ("get", "nodes"), ("escalate", "clusterroles")),
    ]
    assert [right for right in given if not release.can(*right, namespace="default")] == []
    assert [right for right in refused if release.can(*right, namespace="default")] == []
    account = f"--as=system:serviceaccount:{release.namespace}:sloserve"
    may = [
        release.cluster.kubectl_result("get", name, "-o", "name", account) for name in (f"crd/{CRD}", "crd")
    ]
    assert [done.returncode == 0 for done in may] == [True, False], "its own CRD and no other"


def test_it_has_rights_only_in_the_namespaces_that_it_watches(release: Release) -> None:
    release.install({"watchNamespaces": [release.namespace], "rbac": {"aggregateToUserRoles": False}})
    assert release.can("create", "deployments.apps", release.namespace)
    assert not release.can("create", "deployments.apps", "default")
    assert not release.can("list", "sloserves.sloserve.dev", "default")
    assert f"{release.namespace}-sloserve" not in cluster_roles(release.cluster)


def test_two_releases_of_one_name_live_side_by_side(release: Release) -> None:
    cluster, first = release.cluster, release.namespace
    other = dataclasses.replace(release, namespace=f"{first}-b")
    cluster.kubectl("create", "namespace", other.namespace)
    try:
        release.install({"watchNamespaces": [first]})
        again = ("install", "sloserve", str(CHART), "-n", other.namespace)
        taken = helm(*again, cluster=cluster, values=STAND_IN)
        assert f'CustomResourceDefinition "{CRD}"' in taken.stderr
        assert "cannot be imported" in taken.stderr
        own = {"watchNamespaces": [other.namespace], "crds": {"enabled": False}}
        other.helm("install", chart=CHART, values={**STAND_IN, **own})
        for one, two in ((release, other), (other, release)):
            assert one.can("create", "deployments.apps", one.namespace)
            assert not one.can("create", "deployments.apps", two.namespace)
        other.helm("uninstall")
        assert release.can("create", "deployments.apps", first)
    finally:
        cluster.kubectl("delete", "namespace", other.namespace, "--wait=false")


def test_whoever_may_edit_a_namespace_may_edit_its_resources(release: Release) -> None:
    release.install({})
    for role in ("view", "edit"):
        binding = ("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er")
        release.cluster.kubectl("-n", release.namespace, *binding)

    def may(user: str, verb: str, what: str = "sloserves.sloserve.dev") -> bool:
        return release.can(verb, what, release.namespace, user)

    # Aggregation into the built-in roles is a controller's work: it follows within a second.
    wait_for("SLOServes in the built-in roles", lambda: may("editer", "create") and may("viewer", "list"), 20)
    assert may("editer", "patch", "sloserves.sloserve.dev/scale")
    assert not may("viewer", "patch")
    assert not may("editer", "patch", "sloserves.sloserve.dev/status")


def resource(**spec: Any) -> str:
    """A SLOServe as JSON."""
    whole = {
        "model": {"uri": "file:///models/demo"},
        "sloClasses": [{"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": 40}],
        **spec,
    }
    head = {"apiVersion": "sloserve.dev/v1alpha1", "kind": "SLOServe", "metadata": {"name": "chat"}}
    return json.dumps({**head, "spec": whole})


SECRET = {"secretKeyRef": {"name": "others", "key": "password"}}
REACHING: dict[str, dict[str, Any]] = {
    "spec.podTemplate": {"podTemplate": {"spec": {"serviceAccountName": "others"}}},
    "spec.engine.envFrom": {"engine": {"envFrom": [{"secretRef": {"name": "others"}}]}},
    "spec.engine.env with": {"engine": {"env": [{"name": "A", "valueFrom": SECRET}]}},
    "HF_ENDPOINT": {"engine": {"env": [{"name": "HF_ENDPOINT", "value": "http://others"}]}},
    "spec.engine.extraArgs": {"engine": {"extraArgs": ["--trust-remote-code"]}},
    "spec.engine.image": {"engine": {"image": "registry.example.com/others/engine:1"}},
}


def test_restrictions_refuse_what_reaches_beyond_the_resource_and_only_where_they_hold(
    release: Release,
) -> None:
    cluster, here = release.cluster, release.namespace
    values = {
        "watchNamespaces": [here],
        "rbac": {"aggregateToUserRoles": False},
        "restrictions": {"enabled": True, "allowedImages": ["registry.example.com/team/"]},
    }
    release.install(values)

    def said(spec: dict[str, Any], namespace: str = here) -> str:
        arguments = ("-n", namespace, "apply", "--dry-run=server", "-f", "-")
        return cluster.kubectl_result(*arguments, stdin=resource(**spec)).stderr

    # A policy is in force a moment after it was made.
    until(lambda: "spec.podTemplate is not allowed" in said(REACHING["spec.podTemplate"]), "it holds", 30)
    assert {part: part in said(spec) for part, spec in REACHING.items()} == dict.fromkeys(REACHING, True)
    plain = {"engine": {"image": "registry.example.com/team/engine:1", "env": [{"name": "A", "value": "1"}]}}
    assert said(plain) == ""
    assert said({}) == ""
    assert said(REACHING["spec.podTemplate"], "default") == "", "another namespace is not this release's"
    release.helm("upgrade", chart=CHART, values={**STAND_IN, **values, "restrictions": {"enabled": False}})
    until(lambda: said(REACHING["spec.podTemplate"]) == "", "it holds no more", 30)


def docs_commands(section: str) -> list[str]:
    """The commands of a section of docs/install.md, in order."""
    text = (ROOT / "docs" / "install.md").read_text()
    part = re.split(r"^##+ ", text[text.index(f"## {section}\n") + 3 :], maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines() if line.strip()]


@pytest.mark.parametrize("tool", ["helm", "helm4"])
def test_an_admin_of_a_namespace_installs_with_the_rights_that_the_clusters_owner_made(
    release: Release, tool: str
) -> None:
    cluster, namespace = release.cluster, release.namespace
    cluster.kubectl("-n", namespace, "create", "rolebinding", "a", "--clusterrole=admin", "--user=adam")
    owners, admins = docs_commands("As the admin of one namespace")
    with_helm = f"{tools.path(tool).parent}:{tools.path('kubectl').parent}:/usr/bin:/bin"

    def run(command: str, flags: str = "") -> subprocess.CompletedProcess[str]:
        command = command.replace("team-a", namespace).replace("helm ", f"{tools.path(tool).name} ", 1)
        command = command.replace("images.registry=registry.example.com/team", "images.registry=localhost")
        image = "slidingserve/operator-stand-in"
        stand_in = f"--set images.operator.repository={image} --set-string images.operator.tag=1"
        command = command.replace("charts/sloserve ", f"charts/sloserve {stand_in} ", 1)
        environment = {**cluster.environment(), "PATH": with_helm}
        return subprocess.run(
            ["bash", "-c", f"{command} {flags}"], env=environment, cwd=ROOT, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    if tool == "helm":
        # Without the owner's part nothing is left behind that waits for ever.
        alone = run(admins.replace("rbac.create=false", "rbac.create=true"), "--kube-as-user adam")
        assert alone.returncode != 0
        assert "attempting to grant RBAC permissions not currently held" in alone.stderr
        assert cluster.kubectl(
            "-n", namespace, "get", "deployments,serviceaccounts", "-o", "name"
        ).split() == ["serviceaccount/default"]
    made = run(owners)
    assert made.returncode == 0, made.stderr
    installed = run(admins, "--kube-as-user adam")
    assert installed.returncode == 0, installed.stderr
    assert release.can("create", "deployments.apps", namespace)
    assert release.can("patch", "pods/status", namespace)
    assert not release.can("list", "secrets", namespace)


LABELS = {
    "app.kubernetes.io/name": "sloserve-engine",
    "app.kubernetes.io/managed-by": "sloserve-operator",
    "sloserve.dev/name": "chat",
}


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster) -> monitoring.Prometheus:
    return monitoring.install(cluster)


def engine_service(name: str, scrape: str) -> dict[str, Any]:
    labels = {**LABELS, "sloserve.dev/name": name, "sloserve.dev/scrape": scrape}
    ports = [{"name": "http", "port": 8000, "targetPort": "http"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"sloserve.dev/name": "chat"}, "ports": ports},
    }


def test_an_engine_is_scraped_under_its_resources_name(
    release: Release, prometheus: monitoring.Prometheus
) -> None:
    release.install({"monitoring": {"podMonitor": {"enabled": True}}})
    pod = monitoring.scrapeable_pod(release.cluster, "http", LABELS)
    release.cluster.kubectl("-n", release.namespace, "apply", "-f", "-", stdin=json.dumps(pod))
    up = f'up{{namespace="{release.namespace}", sloserve="chat"}}'
    (sample,) = prometheus.wait_for(up, lambda found: [s.value for s in found] == [1])
    assert sample.labels["pod"] == "metrics"


def test_engines_are_scraped_through_the_services_that_ask_for_it_and_rules_are_loaded(
    release: Release, prometheus: monitoring.Prometheus
) -> None:
    on = {"enabled": True}
    release.install({"monitoring": {"serviceMonitor": on, "prometheusRule": on}})
    pod = monitoring.scrapeable_pod(release.cluster, "http", LABELS)
    for obj in (engine_service("off", "false"), engine_service("chat", "true"), pod):
        release.cluster.kubectl("-n", release.namespace, "apply", "-f", "-", stdin=json.dumps(obj))
    # Through the operator's own Service too: its stand-in has no metrics, so that target is down.
    operator = f'up{{namespace="{release.namespace}", service="sloserve-metrics"}}'
    engines = f'up{{namespace="{release.namespace}", sloserve!=""}}'
    prometheus.wait_for(operator)
    (sample,) = prometheus.wait_for(engines, lambda found: [s.value for s in found] == [1])
    assert (sample.labels["sloserve"], sample.labels["pod"]) == ("chat", "metrics")
    until(lambda: {alert.name for alert in ALERTS} <= set(prometheus.rules()), "the rules are loaded", 60)
    until(lambda: set(prometheus.rules().values()) == {"ok"}, "and evaluated without a fault", 60)


def test_a_dashboard_is_there_for_grafanas_sidecar(release: Release) -> None:
    release.install({"grafana": {"dashboards": {"enabled": True}}})
    selector = ("get", "configmaps", "-l", "grafana_dashboard=1", "-o", "json", "-n", release.namespace)
    (found,) = json.loads(release.cluster.kubectl(*selector))["items"]
    board: dict[str, Any] = json.loads(found["data"]["slidingserve-slo.json"])
    assert board["title"] == "SlidingServe: SLO"
