"""The engine's borders under load: each answer against our counters and vLLM's own, and settings files that
nobody should write. Slow; `make test-soak`."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.served import CLASSES, Served, start, wait
from tests.hostile import hostile

NAME = "a100-tp1-llama3.1-8b"
REQUESTS = int(os.environ.get("SOAK_REQUESTS", "10000"))
FILES = int(os.environ.get("SOAK_FILES", "500"))
AT_ONCE = 32

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3000)]

HEADERS: tuple[list[tuple[str, str]], ...] = (
    [],
    [],
    [("x-slo-class", "slow")],
    [("x-slo-ttft-ms", "0")],
    [("x-llm-d-slo-ttft-ms", "129600000")],
    [("x-slo-ttft-ms", "9223372036854775807")],
    [("x-slo-ttft-ms", "500"), ("x-slo-ttft-ms", "800")],
    [("x-slo-ttft-ms", "nan"), ("x-slo-ttft-ms", "60000")],
    [("x-slo-class", "nope")],
    [("x-slo-tbt-ms", "1_0")],
)
BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 3}),
    ("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 3, "stream": True}),
    ("/v1/completions", {"prompt": [[1], [2], [3], [4]], "max_tokens": 2}),
    ("/v1/completions", {"prompt": [[1], []], "max_tokens": 2}),
    ("/v1/completions", {"prompt": [[1], []], "max_tokens": 2, "stream": True}),
    ("/v1/completions", {"prompt": [1], "max_tokens": 0, "echo": True}),
    ("/v1/completions", {"prompt": [1], "max_tokens": 2, "n": 3, "temperature": 1.0}),
    ("/v1/completions", {"prompt": [1], "max_tokens": 2, "vllm_xargs": {"slo_class": "nope"}}),
    ("/v1/completions", {"prompt": [1], "max_tokens": -1}),
    ("/v1/completions", {"prompt": [1] * 5000, "max_tokens": 1}),
    ("/v1/completions", {"prompt": [10**9], "max_tokens": 1}),
    ("/v1/completions", {"prompt": [1], "max_tokens": 2, "model": "nobody"}),
    ("/invocations", {"prompt": [1, 2], "max_tokens": 2}),
    ("/inference/v1/generate", {"token_ids": [1, 2], "sampling_params": {"max_tokens": 2}}),
    ("/tokenize", {"prompt": "x"}),
    ("/v1/embeddings", {"input": "x"}),
)
UNCOUNTED = ("/tokenize", "/v1/embeddings")
"""They generate nothing."""


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("border")
    engine = start(Path("tiny"), directory, "--emulate", NAME, "--calibration-seconds", "0")
    yield engine
    engine.stop()


def seen(path: str, body: dict[str, Any], answer: httpx.Response) -> str:
    """What the client was told: "request" for one that was taken or failed, "refused", or "other"."""
    if path in UNCOUNTED or (body.get("echo") and not body["max_tokens"]):
        return "other"
    if answer.status_code == 429 or answer.status_code >= 500:
        return "request"
    events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    failed = any("error" in json.loads(event) for event in events)
    return "refused" if answer.status_code >= 400 or failed else "request"


async def storm(engine: Served) -> tuple[Counter[str], dict[str, str]]:
    """Send them all; what clients saw, and what of it was neither."""
    found: Counter[str] = Counter()
    odd: dict[str, str] = {}
    numbers = iter(range(REQUESTS))

    async def client(http: httpx.AsyncClient) -> None:
        for number in numbers:
            choice = random.Random(number)
            path, body = choice.choice(BODIES)
            headers = choice.choice(HEADERS)
            document = {"model": "tiny", "temperature": 0, **body}
            answer = await http.post(path, json=document, headers=headers)
            verdict = seen(path, body, answer)
            found[verdict] += 1
            if answer.status_code >= 500:
                odd[f"{path} {json.dumps(body)[:80]}"] = answer.text[:200]

    async with httpx.AsyncClient(base_url=engine.url, timeout=60) as http:
        await asyncio.gather(*(client(http) for _ in range(AT_ONCE)))
    return found, odd


def total(engine: Served) -> dict[str, float]:
    classes = engine.state()["classes"].values()
    verdicts = sum(c["good"] + c["violations"]["request"] for c in classes)
    return {"requests": sum(c["requests"] for c in classes), "verdicts": verdicts}


def vllms(engine: Served, name: str) -> float:
    lines = engine.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"vllm:{name}{{"))


def test_what_is_counted_is_what_clients_saw(emulated: Served) -> None:
    before, metric, errors = (
        total(emulated),
        emulated.metric("requests_total"),
        emulated.metric("planner_errors_total"),
    )
    found, odd = asyncio.run(storm(emulated))
    assert odd == {}
    assert sum(found.values()) == REQUESTS
    wait(lambda: total(emulated)["requests"] - before["requests"] >= found["request"], "all are reported")
    after = total(emulated)
    assert after["requests"] - before["requests"] == found["request"], found
    assert after["verdicts"] - before["verdicts"] == found["request"], found
    assert emulated.metric("requests_total") - metric == found["request"]
    assert emulated.metric("planner_errors_total") == errors
    assert vllms(emulated, "num_requests_running") == vllms(emulated, "num_requests_waiting") == 0
    assert min(found[kind] for kind in ("request", "refused", "other")) > 0


def applied(engine: Served, label: str) -> bool:
    return bool(engine.state()["applied"]["revision"] == label)


def test_hostile_settings_files_change_nothing_of_a_running_engine(emulated: Served) -> None:
    file = emulated.config_dir / "slidingserve.json"
    scratch = emulated.config_dir / "next"
    good = {"schemaVersion": 1, "classes": CLASSES, "defaultClass": "dialogue"}
    for number in range(FILES):
        scratch.write_bytes(hostile(number))
        scratch.replace(file)
        state = emulated.state()
        assert state["schemaVersion"] == 1, number
        if number % 25 == 0:
            label = f"good-{number}"
            scratch.write_text(json.dumps({**good, "generation": 1000 + number, "revision": label}))
            scratch.replace(file)
            wait(partial(applied, emulated, label), f"{label} is applied")
            assert emulated.complete([1, 2, 3], headers={"x-slo-class": "slow"}).status_code == 200
    assert emulated.process.poll() is None
