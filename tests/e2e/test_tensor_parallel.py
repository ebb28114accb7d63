"""Tensor parallel 2: the GPU example as far as goes without GPUs, and a CPU engine that really serves."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.demo import install
from tests.demo.engine import Engine, samples
from tests.demo.kube import Kube, until
from tests.e2e.conftest import EXAMPLE

pytestmark = pytest.mark.cluster

GPU_EXAMPLE = install.ROOT / "examples" / "slosserve.yaml"


@pytest.fixture(scope="module")
def gpu_pod(kube: Kube) -> Any:
    """The pod of examples/slosserve.yaml once it has a node; its image is not on this machine."""
    kube.run("apply", "-f", str(GPU_EXAMPLE))

    def scheduled() -> dict[str, Any] | None:
        pods = kube.pods("chat")
        return pods[0] if pods and pods[0]["spec"].get("nodeName") else None

    yield until(scheduled, "the GPU pod has a node", 60)
    kube.remove("chat")


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["spec"]["containers"]
    return dict(only)


def test_the_gpu_example_is_scheduled_with_a_gpu_for_each_rank(gpu_pod: dict[str, Any]) -> None:
    assert container(gpu_pod)["resources"]["limits"]["nvidia.com/gpu"] == "2"
    scheduled = next(c for c in gpu_pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert scheduled["status"] == "True"


def test_its_command_line_is_that_of_the_resource(gpu_pod: dict[str, Any]) -> None:
    main = container(gpu_pod)
    assert main["command"] == ["slidingserve", "serve", "meta-llama/Llama-3.1-8B-Instruct"]
    assert {"--tensor-parallel-size=2", "--max-model-len=8192", "--slo-config=/etc/slidingserve"} <= set(
        main["args"]
    )
    assert "engine-cpu" not in main["image"]


def test_its_ranks_share_memory_and_every_cache_is_writable(gpu_pod: dict[str, Any]) -> None:
    main, volumes = container(gpu_pod), {v["name"]: v for v in gpu_pod["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in main["volumeMounts"]}
    assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"
    assert "emptyDir" in mounts["/tmp"]
    assert mounts["/etc/slidingserve"]["configMap"]["name"] == "chat-config"
    assert main["securityContext"]["readOnlyRootFilesystem"] is True
    writable = tuple(place for place, volume in mounts.items() if "emptyDir" in volume)
    ends = ("HOME", "_DIR", "_ROOT")
    caches = [entry["value"] for entry in main["env"] if entry["name"].endswith(ends)]
    assert len(caches) >= 5
    assert all(value.startswith(writable) for value in caches)


def test_it_is_ready_by_a_real_token_and_alive_by_health(gpu_pod: dict[str, Any]) -> None:
    main = container(gpu_pod)
    assert main["readinessProbe"]["httpGet"]["path"] == "/slidingserve/v1/ready"
    assert main["startupProbe"]["httpGet"]["path"] == "/slidingserve/v1/ready"
    assert main["livenessProbe"]["httpGet"]["path"] == "/health"
    assert {"name": "http", "containerPort": 8000, "protocol": "TCP"} in main["ports"]


def test_the_resource_says_that_its_image_is_missing(kube: Kube, gpu_pod: dict[str, Any]) -> None:
    until(lambda: kube.condition("chat", "Ready").get("reason") == "ImagePull", "Ready=False, ImagePull", 60)


async def test_a_cpu_engine_serves_with_two_ranks_under_our_scheduler(kube: Kube, make: Any) -> None:
    engine = {**EXAMPLE["spec"]["engine"], "tensorParallelSize": 2}
    del engine["env"]  # it binds the one rank of the example to one core
    name = make("pair", engine=engine)
    install.wait_ready(kube, name, print)
    served = Engine(kube.service_url(name))
    assert served.state()["fallback"] is None
    async with openai.AsyncOpenAI(base_url=served.api, api_key="unused", timeout=120) as api:
        answer = await api.chat.completions.create(
            model=served.models()[0],
            messages=[{"role": "user", "content": "Do two ranks agree?"}],
            max_tokens=16,
        )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16
    counts = [(name, labels.get("branch"), value) for name, labels, value in samples(served.metrics())]
    assert sum(value for name, _, value in counts if name == "slidingserve_requests_total") == 1
    assert (
        sum(v for name, branch, v in counts if (name, branch) == ("slidingserve_plans_total", "chunker")) > 0
    )
    served.close()
    (pod,) = kube.pods(name)
    assert "--tensor-parallel-size=2" in pod["spec"]["containers"][0]["args"]
