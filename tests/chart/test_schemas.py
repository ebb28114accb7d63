"""Every rendered object against strict schemas of the API server: unknown or mistyped fields are errors."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import schemas
from tests.chart.helm import CASES, template
from tests.cluster import tools
from tests.cluster.api import Cluster

pytestmark = pytest.mark.cluster

POD_MONITOR = "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"


@pytest.fixture(scope="module")
def location(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    openapi = json.loads(cluster.kubectl("get", "--raw", "/openapi/v2"))
    pod_monitor = yaml.safe_load((tools.module_dir("prometheus-operator") / POD_MONITOR).read_text())
    return schemas.write(tmp_path_factory.mktemp("schemas"), openapi, [pod_monitor])


def kubeconform(location: str, manifest: str) -> subprocess.CompletedProcess[str]:
    command = [str(tools.path("kubeconform")), "-strict", "-summary", "-schema-location", location]
    return subprocess.run(command, input=manifest, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_every_object_has_only_fields_that_kubernetes_knows(values: dict[str, Any], location: str) -> None:
    done = kubeconform(location, template(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Invalid: 0, Errors: 0, Skipped: 0" in done.stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("serviceAccountName:", "serviceAccount-Name:"),
        ("periodSeconds: 2", "periodSeconds: two"),
        ("podMetricsEndpoints:", "podMetricEndpoints:"),
        ("listKind:", "kindOfList:"),
    ],
)
def test_a_misspelt_field_or_a_wrong_type_is_seen(old: str, new: str, location: str) -> None:
    rendered = template(CASES["everything on"])
    assert old in rendered
    assert kubeconform(location, rendered.replace(old, new)).returncode != 0


def test_the_examples_are_valid_against_the_crd_in_the_chart(tmp_path: Path) -> None:
    crds = [doc for doc in yaml.safe_load_all(template({})) if doc["kind"] == "CustomResourceDefinition"]
    location = schemas.write(tmp_path, {"definitions": {}}, crds)
    examples = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
    assert examples
    for example in examples:
        done = kubeconform(location, example.read_text())
        assert done.returncode == 0, f"{example.name}: {done.stdout}"
