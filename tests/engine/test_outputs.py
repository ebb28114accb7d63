"""Scheduling changes when tokens are computed, not which: outputs under load against stock vLLM's."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.engine.served import Served

TOKENS = 24
COUNT = 60


def make_prompts() -> list[list[int]]:
    """Distinct prompts of 1 to 1,500 tokens, short and long ones in turn."""
    chance = random.Random(7)
    lengths = [chance.randint(1, 60) if number % 3 else chance.randint(300, 1500) for number in range(COUNT)]
    return [[chance.randrange(32, 127) for _ in range(length)] for length in lengths]


@pytest.fixture(scope="module")
def expected(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("outputs")
    (folder / "prompts.json").write_text(json.dumps(make_prompts()))
    command = [sys.executable, "-m", "tests.engine.outputs", str(tiny_model)]
    command += [str(folder / "prompts.json"), str(TOKENS), str(folder / "out.json")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-4000:]
    found: dict[str, list[str]] = json.loads((folder / "out.json").read_text())
    return found


async def under_load(served: Served, prompts: list[list[int]]) -> list[str]:
    """All prompts at once but in waves, half of them streamed, with different promises."""
    headers = [{"x-slo-class": "dialogue"}, {"x-slo-class": "strict"}, {"x-slo-tbt-ms": "5"}]

    async def one(client: httpx.AsyncClient, number: int) -> str:
        await asyncio.sleep(0.02 * (number // 8))  # an arrival process, not a wait for something
        body = {"model": "tiny", "prompt": prompts[number], "max_tokens": TOKENS, "temperature": 0}
        url = served.url + "/v1/completions"
        if number % 2:
            answer = await client.post(url, json=body, headers=headers[number % 3])
            text: str = answer.json()["choices"][0]["text"]
            return text
        parts = []
        streamed = {**body, "stream": True}
        async with client.stream("POST", url, json=streamed, headers=headers[number % 3]) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    parts.append(json.loads(line[6:])["choices"][0]["text"])
        return "".join(parts)

    async with httpx.AsyncClient(timeout=120) as client:
        return list(await asyncio.gather(*(one(client, number) for number in range(len(prompts)))))


def test_greedy_outputs_under_load_equal_stock_vllms(served: Served, expected: dict[str, list[str]]) -> None:
    served.configure(chunk={"minTokens": 8, "maxTokens": 64})
    chunks = served.metric("chunk_tokens_count")
    plans = served.metric("plans_total", branch="chunker")
    found = asyncio.run(under_load(served, make_prompts()))
    assert len(set(found)) >= 50, "the comparison needs distinct outputs"
    assert found == expected["stock"]
    assert served.metric("chunk_tokens_count") - chunks > 2 * COUNT, "long prompts were prefilled in chunks"
    assert served.metric("plans_total", branch="chunker") > plans
    assert served.metric("planner_errors_total") == 0
    served.configure()


def test_the_comparison_sees_a_scheduling_fault(expected: dict[str, list[str]]) -> None:
    different = [a != b for a, b in zip(expected["stock"], expected["faulty"], strict=True)]
    assert sum(different) >= 5
    assert not all(different), "prompts that are prefilled in one piece do not meet the fault"
