"""Pods on a real scheduler and kubelet, and what the status makes of their troubles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cluster.pods import PROBE, load_probe
from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "slosserve.yaml"


def test_the_gpu_examples_pod_is_scheduled_on_gpus_under_restricted_pod_security(
    space: Space, operator: Operator
) -> None:
    space.run("label", "namespace", space.name, "pod-security.kubernetes.io/enforce=restricted")
    example = yaml.safe_load(EXAMPLE.read_text())
    name = example["metadata"]["name"]
    space.apply(example)
    space.reason(name, "ImagePull", "ContainerConfig", seconds=60)
    (pod,) = json.loads(space.run("get", "pods", "-l", f"sloserve.dev/name={name}", "-o", "json"))["items"]
    assert pod["spec"]["nodeName"]
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert {"name": "dshm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert container["command"] == ["slidingserve", "serve", "meta-llama/Llama-3.1-8B-Instruct"]
    assert {"--tensor-parallel-size=2", "--max-model-len=8192"} <= set(container["args"])


def test_a_pod_without_room_says_so_in_the_schedulers_words(space: Space, operator: Operator) -> None:
    space.apply(manifest(engine={"tensorParallelSize": 64}, replicas=1))
    condition = space.reason("chat", "InsufficientGPU", seconds=60)
    assert "Insufficient nvidia.com/gpu" in condition["message"]
    event = until(
        lambda: [
            e
            for e in json.loads(space.run("get", "events.events.k8s.io", "-o", "json"))["items"]
            if e["reason"] == "InsufficientGPU" and e["regarding"]["kind"] == "SLOServe"
        ],
        "an event",
    )
    assert event[0]["type"] == "Warning"
    assert "Insufficient nvidia.com/gpu" in event[0]["note"]


def test_a_pod_that_dies_says_what_it_died_of(space: Space, operator: Operator) -> None:
    """The probe image has no `slidingserve`: the runtime's own sentence comes through."""
    load_probe(space.cluster)
    space.apply(manifest(engine={"accelerator": "cpu", "image": PROBE}, replicas=1))
    condition = space.reason("chat", "CrashLoop", "ContainerConfig", seconds=90)
    assert "slidingserve" in condition["message"]
