"""Rolling changes where no GPU is spare: no request is lost, nothing is left over, nothing waits for ever.

GPUs are fake and engines emulated (rolling.py); Service, kubelet, probes, hooks and clients are real.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.demo.engine import samples
from tests.demo.kube import Kube, until
from tests.e2e.rolling import NAME, Rolling, arguments, gpus, host_pids, manifest, ready_since

pytestmark = pytest.mark.cluster

REQUESTS = 2000


@pytest.fixture(scope="module")
def rolling(kube: Kube) -> Iterator[Rolling]:
    """Two engines, Ready, on all GPUs that there are."""
    count = gpus(kube)
    if count < 2:
        pytest.skip("no node has two GPUs, real or fake")
    kube.apply(manifest(kube, count // 2))
    made = Rolling(kube, count)
    made.follow()
    yield made
    kube.remove(NAME)


async def test_a_rolling_change_under_2000_requests_loses_none(
    rolling: Rolling, capsys: pytest.CaptureFixture[str], record_property: Any
) -> None:
    async with rolling.clients().run() as clients:
        await clients.one_more_each()
        old = await asyncio.to_thread(rolling.served)
        assert len(old) == 2
        assert all(old.values()), f"both serve: {old}"
        began, before = time.monotonic(), clients.sent
        await asyncio.to_thread(rolling.change, maxNumSeqs=48)
        reasons = await asyncio.to_thread(rolling.follow)
        took, during = time.monotonic() - began, clients.sent - before
        await clients.until(REQUESTS)
        await clients.one_more_each()
        new = await asyncio.to_thread(rolling.served)
    with capsys.disabled():
        print(f"\nrolled in {took:.0f} s, {during} requests; {clients.sent} in all, lost {len(clients.lost)}")
    record_property("rollout", {"seconds": round(took), "requests": during, "all": clients.sent})
    assert clients.lost == []
    assert clients.complete.total() >= REQUESTS
    assert "WaitingForDrain" in reasons
    assert len(new) == 2
    assert not new.keys() & old.keys()
    assert sum(new.values()) > 0
    assert all("--max-num-seqs=48" in arguments(pod) for pod in rolling.pods())


async def test_a_change_taken_back_while_it_rolls_loses_nothing_and_leaves_nothing(
    rolling: Rolling, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {pod["metadata"]["name"] for pod in rolling.pods()}
    (argument,) = {word for word in arguments(rolling.pods()[0]) if word.startswith("--max-num-seqs")}
    async with rolling.clients().run() as clients:
        await asyncio.to_thread(rolling.change, maxNumSeqs=32)
        found = await asyncio.to_thread(
            until, lambda: rolling.started("--max-num-seqs=32"), "the first engine of the change", 600
        )
        stays = before & {pod["metadata"]["name"] for pod in await asyncio.to_thread(rolling.kube.pods, NAME)}
        assert len(stays) == 1
        assert not await asyncio.to_thread(rolling.may_evict, *stays), "the one that serves is not given"
        await asyncio.to_thread(rolling.change, maxNumSeqs=int(argument.rpartition("=")[2]))
        await asyncio.to_thread(rolling.follow)
        await clients.one_more_each()
    with capsys.disabled():
        print(f"\nrolled and taken back; {clients.sent} requests, lost {len(clients.lost)}")
    assert clients.lost == []
    gone = found[0]["metadata"]["name"]
    until(lambda: gone not in {pod["metadata"]["name"] for pod in rolling.pods()}, f"{gone} is gone", 120)
    pods = rolling.pods()
    assert len(pods) == 2
    assert stays < {pod["metadata"]["name"] for pod in pods}
    assert all(argument in arguments(pod) for pod in pods)
    assert all(rolling.may_evict(pod["metadata"]["name"]) for pod in pods), "one may go, either"
    resource, deployment = rolling.kube.resource(NAME), rolling.kube.get("deployment", NAME)
    for found_one in (resource, deployment):
        assert found_one is not None
        assert found_one["status"]["observedGeneration"] == found_one["metadata"]["generation"]
    used = [r for r in rolling.kube.items("replicaset", f"sloserve.dev/name={NAME}") if r["spec"]["replicas"]]
    assert [r["status"].get("readyReplicas") for r in used] == [2]


def test_a_busy_engine_keeps_its_place_and_a_frozen_one_leaves_it_until_it_answers(rolling: Rolling) -> None:
    pod, other = rolling.kube.pods(NAME)
    name, address = pod["metadata"]["name"], pod["status"]["podIP"]
    was = ready_since(pod)
    url = rolling.kube.pod_url(pod)

    def work(number: int) -> int:
        """A prompt of its own that fills batches, then tokens: 20 s of the device's time for all of them."""
        body = {"model": "tiny", "prompt": [16 + number % 200, number] * 650, "max_tokens": 30}
        ended = httpx.post(
            f"{url}/v1/completions", json={**body, "ignore_eos": True}, timeout=300, trust_env=False
        )
        return ended.status_code

    with ThreadPoolExecutor(80) as pool:
        answers = [pool.submit(work, number) for number in range(80)]
        began, waiting = time.monotonic(), 0.0
        while not all(answer.done() for answer in answers):
            assert address in rolling.endpoints()
            text = httpx.get(f"{url}/metrics", timeout=60, trust_env=False).text
            queued = sum(value for key, _, value in samples(text) if key == "vllm:num_requests_waiting")
            waiting = max(waiting, queued)
            time.sleep(0.5)
    assert {answer.result() for answer in answers} == {200}
    assert waiting > 0, "more than it may run at a time"
    assert time.monotonic() - began > 12, "for longer than the probes take to notice"
    now = rolling.kube.get("pod", name)
    assert now is not None
    assert ready_since(now) == was == ("True", was[1])

    processes = httpx.get(f"{url}/slidingserve/v1/state", timeout=30, trust_env=False).json()["processes"]
    core = [process["pid"] for process in processes if process["role"] == "core"]
    rolling.signal(name, core, "SIGSTOP")
    try:
        until(lambda: rolling.endpoints() == {other["status"]["podIP"]}, "it left the Service", 90)
        for number in range(5):  # each on a connection of its own
            answer = httpx.post(
                f"{rolling.kube.service_url(NAME)}/v1/completions",
                json={"model": "tiny", "prompt": f"hello {number}", "max_tokens": 2},
                timeout=60,
                trust_env=False,
            )
            assert answer.status_code == 200
    finally:
        rolling.signal(name, core, "SIGCONT")
    until(lambda: address in rolling.endpoints(), "it is back", 90)
    rolling.follow(90)
    now = rolling.kube.get("pod", name)
    assert now is not None
    assert [c["restartCount"] for c in now["status"]["containerStatuses"]] == [0]


def test_one_engine_on_all_gpus_is_replaced_without_a_spare_one(rolling: Rolling) -> None:
    """First two engines make way for one that needs the GPUs of both, then that one for its successor."""
    rolling.kube.patch(NAME, {"replicas": 1, "engine": {"tensorParallelSize": rolling.gpus}})
    rolling.follow()
    (first,) = rolling.kube.pods(NAME)
    assert first["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": str(rolling.gpus)}
    rolling.change(maxNumSeqs=16)
    reasons = rolling.follow()
    assert "WaitingForDrain" in reasons
    (second,) = rolling.kube.pods(NAME)
    assert second["metadata"]["name"] != first["metadata"]["name"]


@pytest.mark.soak
def test_an_engine_that_liveness_gave_up_is_not_waited_for(rolling: Rolling) -> None:
    """All its processes are frozen: no drain would ever end. The kubelet takes a minute to give it up."""
    pod = rolling.kube.pods(NAME)[0]
    name, grace = pod["metadata"]["name"], pod["spec"]["terminationGracePeriodSeconds"]
    for pid in host_pids(pod):
        os.kill(pid, signal.SIGSTOP)

    def restarted() -> dict[str, Any] | None:
        found = rolling.kube.get("pod", name)
        assert found is not None
        (container,) = found["status"]["containerStatuses"]
        return dict(container) if container["restartCount"] else None

    ended = until(restarted, "it is restarted", 300)["lastState"]["terminated"]["finishedAt"]
    (told,) = [
        event
        for event in rolling.kube.items("event")
        if event["involvedObject"]["name"] == name and "failed liveness probe" in event["message"]
    ]
    took = datetime.fromisoformat(ended) - datetime.fromisoformat(told["firstTimestamp"])
    print(f"ended {took} after it was given up, of a grace period of {grace} s")
    assert took.total_seconds() < grace / 2
    rolling.follow()
