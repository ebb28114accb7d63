"""Our strategic merge against `kubectl patch --local --type=strategic`: result and order of lists alike."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from sloserve_operator.desired import pod as pods
from sloserve_operator.desired.merge import strategic

from tests.cluster import tools
from tests.desired import inputs

pytestmark = pytest.mark.cluster

BASE = {
    "metadata": {"labels": {"a": "1"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "x",
                "args": ["one", "two"],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "2"},
                    {"name": "C", "value": "3"},
                ],
                "ports": [{"name": "http", "containerPort": 8000}],
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "c", "mountPath": "/c"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
                "securityContext": {"capabilities": {"drop": ["ALL"]}},
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "nodeSelector": {"disk": "ssd"},
        "imagePullSecrets": [{"name": "one"}],
    },
}


def main(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


PATCHES: dict[str, dict[str, Any]] = {
    "labels are merged": {"metadata": {"labels": {"b": "2"}, "annotations": {"c": "3"}}},
    "null takes a key out": {"metadata": {"labels": {"a": None}}, "spec": {"nodeSelector": None}},
    "a sidecar is added": {"spec": {"containers": [{"name": "side", "image": "y"}]}},
    "a sidecar before main": {"spec": {"containers": [{"name": "side", "image": "y"}, {"name": "main"}]}},
    "a sidecar after main": {"spec": {"containers": [{"name": "main"}, {"name": "side", "image": "y"}]}},
    "env by name": main(env=[{"name": "B", "value": "9"}, {"name": "D", "value": "4"}]),
    "env in another order": main(env=[{"name": "C", "value": "9"}, {"name": "A", "value": "8"}]),
    "env from elsewhere": main(
        env=[{"name": "A", "value": None, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    ),
    "an env is deleted": main(env=[{"name": "B", "$patch": "delete"}, {"name": "E", "value": "5"}]),
    "all env is replaced": main(env=[{"$patch": "replace"}, {"name": "E", "value": "5"}]),
    "args are replaced": main(args=["three"]),
    "mounts by path": main(volumeMounts=[{"name": "d", "mountPath": "/c"}, {"name": "e", "mountPath": "/e"}]),
    "ports by number": main(ports=[{"name": "h", "containerPort": 8000}, {"containerPort": 9000}]),
    "resources are merged": main(resources={"limits": {"memory": "2Gi"}, "requests": {"memory": "1Gi"}}),
    "a map is replaced": main(resources={"$patch": "replace", "limits": {"cpu": "2"}}),
    "a map is deleted": main(securityContext={"$patch": "delete"}),
    "capabilities are replaced": main(securityContext={"capabilities": {"drop": ["NET_RAW"], "add": ["X"]}}),
    "a volume changes its source": {
        "spec": {"volumes": [{"name": "tmp", "emptyDir": None, "hostPath": {"path": "/x"}}]}
    },
    "volumes by name": {
        "spec": {"volumes": [{"name": "d"}, {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}]}
    },
    "main is deleted": {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}},
    "init containers": {
        "spec": {"initContainers": [{"name": "i", "image": "y", "env": [{"name": "A", "value": "1"}]}]}
    },
    "tolerations are replaced": {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}},
    "host aliases by address": {"spec": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]}},
    "spread by topology": {
        "spec": {
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            ]
        }
    },
    "affinity": {
        "spec": {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
            }
        }
    },
    "pull secrets": {"spec": {"imagePullSecrets": [{"name": "two"}, {"name": "one"}]}},
    "many at once": main(
        env=[{"name": name, "value": name} for name in ("Z", "C", "Y", "A")],
        image="z",
    ),
}  # fmt: skip


def kubectl(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The template of a PodTemplate as kubectl patches it, without a cluster."""
    whole = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": base}
    words = (
        "patch",
        "--local",
        "-f",
        "-",
        "--type=strategic",
        "-o",
        "json",
        "-p",
        json.dumps({"template": patch}),
    )
    done = subprocess.run(
        [str(tools.path("kubectl")), *words],
        input=json.dumps(whole),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)["template"])


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_gives_what_kubectl_gives(name: str) -> None:
    before = json.dumps(BASE)
    assert strategic(BASE, PATCHES[name]) == kubectl(BASE, PATCHES[name])
    assert json.dumps(BASE) == before, "the merge changed what it was given"


def test_the_golden_pod_template_is_merged_as_kubectl_does_it() -> None:
    resource = inputs()["pod-template.yaml"]
    assert resource.spec.pod_template is not None
    patch = resource.spec.pod_template.model_dump(by_alias=True, exclude_unset=True)
    own = pods.own_template(resource, "engine:1.0", 1)
    assert strategic(own, patch) == kubectl(own, patch)
