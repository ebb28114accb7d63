"""Emulated engines that take every GPU of the node, for tests/e2e/test_rollout.py.

The GPUs are a number that the scheduler counts (tests.cluster), the engines vLLM with a stand-in for the
device (`slidingserve serve --emulate`); all else is as with real ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.demo import install
from tests.demo.kube import Kube, Object, until
from tests.streams import Clients

NAME = "rolling"
PROFILE = "rtx3090-tp2-llama3.1-8b"
GPU = "nvidia.com/gpu"
READY_SECONDS = 900.0
"""For two engines one after the other, on a machine that does other things as well."""


def manifest(kube: Kube, tensor_parallel: int) -> Object:
    """Two engines of so many GPUs each."""
    return {
        "apiVersion": "sloserve.dev/v1alpha1",
        "kind": "SLOServe",
        "metadata": {"name": NAME},
        "spec": {
            "model": {"uri": "file:///models/demo", "name": "tiny"},
            "engine": {
                "accelerator": GPU,
                "tensorParallelSize": tensor_parallel,
                "image": cpu_image(kube),
                "extraArgs": [f"--emulate={PROFILE}", "--calibration-seconds=0"],
                # Compiled code pays off after minutes; here engines live shorter.
                "env": [{"name": "NUMBA_DISABLE_JIT", "value": "1"}],
                "maxNumSeqs": 64,
                "startupTimeoutSeconds": 600,
            },
            "replicas": 2,
            "sloClasses": [{"name": "dialogue", "ttft": {"milliseconds": 5000}, "tbtMilliseconds": 1000}],
            "scheduler": {"policy": "fcfs"},
        },
    }


def cpu_image(kube: Kube) -> str:
    """The CPU engine's image, as the chart told the operator."""
    where = "jsonpath={.spec.template.spec.containers[0].env[?(@.name=='SLOSERVE_ENGINE_IMAGE_CPU')].value}"
    found = kube.cluster.kubectl("-n", install.SYSTEM, "get", "deployment", install.RELEASE, "-o", where)
    assert found, "the operator has no CPU image"
    return found


def gpus(kube: Kube) -> int:
    """GPUs of the node that has most."""
    nodes = json.loads(kube.cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    return max(int(node["status"]["allocatable"].get(GPU, 0)) for node in nodes)


@dataclass(frozen=True)
class Rolling:
    """The resource, its pods, and the clients of its Service."""

    kube: Kube
    gpus: int

    def clients(self) -> Clients:
        """Some 25 short requests a second, and two long ones at any time that outlast the 10 s in which
        everyone learns of a drain."""
        return Clients(self.kube.service_url(NAME), size=20, long=2, long_tokens=600)

    def change(self, **engine: Any) -> None:
        """Change restart fields."""
        self.kube.patch(NAME, {"engine": engine})

    def follow(self, seconds: float = READY_SECONDS) -> list[str]:
        """Wait until the present generation runs everywhere; the reasons of Ready on the way."""
        reasons: list[str] = []

        def done() -> bool:
            found = self.kube.condition(NAME, "Ready")
            if found and found["reason"] not in reasons:
                reasons.append(found["reason"])
            return found.get("status") == "True"

        until(done, f"{NAME} is Ready", seconds, every=0.5)
        return reasons

    def pods(self) -> list[Object]:
        """All its pods, those on their way out too."""
        return self.kube.items("pod", f"sloserve.dev/name={NAME}")

    def started(self, argument: str) -> list[Object]:
        """Pods with the argument whose engine runs, ready or not."""
        return [
            pod
            for pod in self.pods()
            if argument in arguments(pod)
            and any("running" in c["state"] for c in pod["status"].get("containerStatuses", []))
        ]

    def served(self) -> dict[str, int]:
        """Requests that each pod has accepted, by the pod's name; only those that answer."""
        found = {}
        for pod in self.kube.pods(NAME):
            state = httpx.get(f"{self.kube.pod_url(pod)}/slidingserve/v1/state", timeout=30, trust_env=False)
            classes = state.json()["classes"].values()
            found[pod["metadata"]["name"]] = sum(counts["requests"] for counts in classes)
        return found

    def may_evict(self, pod: str) -> bool:
        """Whether a node drain may take the pod now; it is not taken."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.kube.namespace},
            "deleteOptions": {"dryRun": ["All"]},
        }
        path = f"/api/v1/namespaces/{self.kube.namespace}/pods/{pod}/eviction"
        done = self.kube.try_run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
        assert not done.returncode or "disruption budget" in done.stderr, done.stderr
        return not done.returncode

    def endpoints(self) -> set[str]:
        """Addresses to which the Service sends new connections."""
        slices = self.kube.items("endpointslice", f"kubernetes.io/service-name={NAME}")
        return {
            address
            for part in slices
            for endpoint in part["endpoints"] or []
            if endpoint["conditions"]["ready"]
            for address in endpoint["addresses"]
        }

    def signal(self, pod: str, pids: Iterable[int], number: str) -> None:
        """Send a signal to processes of the engine's container."""
        code = f"import os, signal; [os.kill(pid, signal.{number}) for pid in {list(pids)}]"
        self.kube.run("exec", pod, "--", "python", "-c", code)


def arguments(pod: Object) -> list[str]:
    """What the engine was started with."""
    return [*pod["spec"]["containers"][0]["args"]]


def ready_since(pod: Object) -> tuple[str, str]:
    """Whether the pod is Ready, and since when."""
    found = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")
    return found["status"], found["lastTransitionTime"]


def host_pids(pod: Object) -> list[int]:
    """The engine's processes as this machine numbers them, on a cluster of its own. From within a container
    no signal stops its first process."""
    uid = pod["metadata"]["uid"]
    found = []
    for entry in Path("/proc").iterdir():
        try:
            groups = (entry / "cgroup").read_text()
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # no process, or one that has ended
        if uid in groups.replace("_", "-") and b"pause" not in words:
            found.append(int(entry.name))
    assert found, f"no process of pod {pod['metadata']['name']} is on this machine"
    return found
