"""Every rendered object against strict schemas of the API server: unknown or mistyped fields are errors."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import schemas
from tests.chart.helm import CASES, ROOT, template
from tests.cluster import tools
from tests.cluster.api import Cluster

pytestmark = pytest.mark.cluster

PLURALS = ("podmonitors", "servicemonitors", "prometheusrules")
TEMPLATES = sorted((ROOT / "tests" / "data" / "desired" / "templates").glob("*/*.yaml"))


@pytest.fixture(scope="module")
def location(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    openapi = json.loads(cluster.kubectl("get", "--raw", "/openapi/v2"))
    return schemas.write(tmp_path_factory.mktemp("schemas"), openapi, monitor_crds())


def monitor_crds() -> list[dict[str, Any]]:
    """prometheus-operator's own definitions of what the chart makes for it."""
    directory = tools.module_dir("prometheus-operator") / "example" / "prometheus-operator-crd"
    files = [directory / f"monitoring.coreos.com_{plural}.yaml" for plural in PLURALS]
    return [yaml.safe_load(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[Cluster]:
    """A server that knows every kind that the chart can make; what was not there before goes again."""
    known = cluster.kubectl("get", "crd", "-o", "name")
    added = [crd for crd in monitor_crds() if crd["metadata"]["name"] not in known]
    for crd in added:
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(crd))
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{crd['metadata']['name']}")
    yield cluster
    for crd in added:
        cluster.kubectl("delete", "crd", crd["metadata"]["name"])


def kubeconform(location: str, manifest: str) -> subprocess.CompletedProcess[str]:
    command = [str(tools.path("kubeconform")), "-strict", "-summary", "-schema-location", location]
    return subprocess.run(command, input=manifest, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_every_object_has_only_fields_that_kubernetes_knows(values: dict[str, Any], location: str) -> None:
    done = kubeconform(location, template(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Invalid: 0, Errors: 0, Skipped: 0" in done.stdout


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_the_api_server_itself_takes_every_object(
    values: dict[str, Any], server: Cluster, namespace: str
) -> None:
    """A dry run through its admission and validation, in a namespace under restricted Pod Security."""
    server.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    values = {**values, **({"watchNamespaces": [namespace]} if values.get("watchNamespaces") else {})}
    done = server.kubectl_result(
        "apply", "--dry-run=server", "--server-side", "--force-conflicts", "-f", "-",
        stdin=template(values, namespace=namespace),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


def test_engine_pods_are_admitted_under_restricted_pod_security(cluster: Cluster, namespace: str) -> None:
    """Every golden pod template in every version, as pods, by a dry run."""
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")

    def created(file: Path, **more: Any) -> str:
        pod = yaml.safe_load(file.read_text())
        pod["metadata"] |= {"name": "engine", "namespace": namespace}
        spec = pod["spec"]
        for odd in ("priorityClassName", "initContainers"):  # made up; and what a podTemplate adds is its own
            spec.pop(odd, None)
        main = [container for container in spec["containers"] if container["name"] == "main"]
        pod["spec"] = {**spec, "containers": main, "serviceAccountName": "default", **more}
        manifest = json.dumps({"apiVersion": "v1", "kind": "Pod", **pod})
        done = cluster.kubectl_result("create", "--dry-run=server", "-f", "-", stdin=manifest)
        return done.stderr

    assert {file.name: said for file in TEMPLATES if (said := created(file))} == {}
    assert 'violates PodSecurity "restricted' in created(TEMPLATES[0], hostNetwork=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("serviceAccountName:", "serviceAccount-Name:"),
        ("periodSeconds: 2", "periodSeconds: two"),
        ("podMetricsEndpoints:", "podMetricEndpoints:"),
        ("listKind:", "kindOfList:"),
        ("policyTypes:", "policyType:"),
    ],
)
def test_a_misspelt_field_or_a_wrong_type_is_seen(old: str, new: str, location: str) -> None:
    rendered = template(CASES["everything on"])
    assert old in rendered
    assert kubeconform(location, rendered.replace(old, new)).returncode != 0


def test_the_examples_are_valid_against_the_crd_in_the_chart(tmp_path: Path) -> None:
    crds = [doc for doc in yaml.safe_load_all(template({})) if doc["kind"] == "CustomResourceDefinition"]
    location = schemas.write(tmp_path, {"definitions": {}}, crds)
    examples = sorted((ROOT / "examples").glob("*.yaml"))
    assert examples
    for example in examples:
        # Kubernetes' own kinds beside it are the API server's to check (tests/contract/test_rules.py).
        ours = [doc for doc in yaml.safe_load_all(example.read_text()) if doc["kind"] == "SLOServe"]
        assert ours, example.name
        done = kubeconform(location, yaml.safe_dump_all(ours))
        assert done.returncode == 0, f"{example.name}: {done.stdout}"
