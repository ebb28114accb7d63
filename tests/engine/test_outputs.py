"""Scheduling changes when tokens are computed, not which: outputs against stock vLLM's, by policy."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.served import Served

TOKENS = 24
COUNT = 60
HIDDEN, RANK, LAYERS = 128, 8, 2
POLICIES = ("chaos", "fcfs", "ppas", "qoserve", "sarathi_edf", "slidingserve_paper")
GREEDY = {"max_tokens": TOKENS, "temperature": 0}


def make_prompts() -> list[list[int]]:
    """Distinct prompts of 1 to 1,500 tokens, short and long ones in turn."""
    chance = random.Random(7)
    lengths = [chance.randint(1, 60) if number % 3 else chance.randint(300, 1500) for number in range(COUNT)]
    return [[chance.randrange(32, 127) for _ in range(length)] for length in lengths]


def make_jobs() -> list[dict[str, Any]]:
    """The prompts, and of everything else that an engine is asked for, some."""
    chance = random.Random(8)

    def prompt(low: int, high: int) -> list[int]:
        return [chance.randrange(32, 127) for _ in range(chance.randint(low, high))]

    jobs: list[dict[str, Any]] = [{"prompt": ids, "params": GREEDY} for ids in make_prompts()]
    shared = prompt(200, 200)
    jobs += [{"prompt": [*shared, *prompt(5, 90)], "params": GREEDY, "kind": "prefix"} for _ in range(8)]
    sampled = {"max_tokens": TOKENS, "temperature": 1.0, "n": 3}
    for seed in range(6):
        jobs.append({"prompt": prompt(20, 300), "params": {**sampled, "seed": seed}, "kind": "n"})
    choice = ["red", "green", "blue", "a rather long answer"]
    jobs += [{"prompt": prompt(5, 200), "params": GREEDY, "choice": choice} for _ in range(6)]
    long = {"max_tokens": 300, "temperature": 0, "ignore_eos": True}
    jobs += [{"prompt": prompt(20, 600), "params": long, "abort": True} for _ in range(8)]
    # After all others: on the CPU an adapter changes what the requests beside it get, under stock vLLM too.
    for number in range(12):
        jobs.append({"prompt": prompt(20, 400), "params": GREEDY, "adapter": 1 + number % 2})
    return jobs


JOBS = make_jobs()
ANSWERED = [number for number, job in enumerate(JOBS) if not job.get("abort")]


def make_adapter(directory: Path, seed: int) -> str:
    """A LoRA adapter for the tiny model that changes what it says."""
    import numpy as np
    from safetensors.numpy import save_file

    chance = np.random.default_rng(seed)
    directory.mkdir()
    tensors = {}
    for layer in range(LAYERS):
        for name in ("q_proj", "v_proj"):
            prefix = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            for part, shape in (("lora_A", (RANK, HIDDEN)), ("lora_B", (HIDDEN, RANK))):
                weights = chance.normal(0, HIDDEN**-0.25, shape).astype(np.float32)
                tensors[f"{prefix}.{part}.weight"] = weights
    save_file(tensors, directory / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "target_modules": ["q_proj", "v_proj"]}
    (directory / "adapter_config.json").write_text(json.dumps({**config, "bias": "none"}))
    return str(directory)


@pytest.fixture(scope="module")
def found(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all engines of `tests.engine.outputs` answered."""
    folder = tmp_path_factory.mktemp("outputs")
    adapters = [make_adapter(folder / f"adapter-{seed}", seed) for seed in (1, 2)]
    (folder / "jobs.json").write_text(json.dumps({"jobs": JOBS, "adapters": adapters}))
    command = [sys.executable, "-m", "tests.engine.outputs", str(tiny_model)]
    command += [str(folder / "jobs.json"), str(folder / "out.json")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stderr[-4000:]
    answers: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return answers


def test_the_stock_outputs_are_distinct_and_of_every_kind(found: dict[str, Any]) -> None:
    stock = found["stock"]
    assert {*map(str, ANSWERED)} <= stock.keys()
    assert len({sequence["text"] for number in range(COUNT) for sequence in stock[str(number)]}) >= 50
    for number in ANSWERED:
        job, answer = JOBS[number], stock[str(number)]
        assert len(answer) == job["params"].get("n", 1)
        if job.get("kind") == "n":
            assert len({sequence["text"] for sequence in answer}) > 1
        if job.get("choice"):
            assert answer[0]["text"] in job["choice"]
    first, second = (stock[str(number)][0]["text"] for number in ANSWERED[-2:])
    assert first != second


@pytest.mark.parametrize("policy", POLICIES)
def test_every_output_is_stock_vllms_token_for_token(found: dict[str, Any], policy: str) -> None:
    """Greedy, seeded with n > 1, structured, with adapters; some aborted, little KV, prefix caching."""
    ours = found["ours"][policy]
    different = [
        (number, JOBS[number].get("kind"), JOBS[number].get("adapter"))
        for number in ANSWERED
        if ours["answers"].get(str(number)) != found["stock"][str(number)]
    ]
    assert different == []
    assert ours["preempted"] > 0, "the KV cache was too small for all"
    assert ours["cached"] > 0, "prefixes were shared"
    assert ours["failures"] == 0


def test_the_comparison_sees_a_scheduling_fault(found: dict[str, Any]) -> None:
    plain = [str(number) for number in range(COUNT)]
    different = [found["stock"][number] != found["faulty"][number] for number in plain]
    assert sum(different) >= 5
    assert not all(different), "prompts that are prefilled in one piece do not meet the fault"


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


def test_greedy_outputs_under_load_equal_stock_vllms(served: Served, found: dict[str, Any]) -> None:
    served.configure(chunk={"minTokens": 8, "maxTokens": 64})
    chunks = served.metric("chunk_tokens_count")
    plans = served.metric("plans_total", branch="chunker")
    texts = asyncio.run(under_load(served, make_prompts()))
    assert len(set(texts)) >= 50, "the comparison needs distinct outputs"
    assert texts == [found["stock"][str(number)][0]["text"] for number in range(COUNT)]
    assert served.metric("chunk_tokens_count") - chunks > 2 * COUNT, "long prompts were prefilled in chunks"
    assert served.metric("plans_total", branch="chunker") > plans
    assert served.metric("planner_errors_total") == 0
    served.configure()


def test_a_seeded_request_repeats_though_its_prompt_is_prefilled_in_chunks(served: Served) -> None:
    served.configure(chunk={"minTokens": 8, "maxTokens": 64})
    prompt = make_prompts()[0]
    answers = [served.complete(prompt, tokens=TOKENS, n=2, seed=3, temperature=1.0) for _ in range(2)]
    first, again = (answer.json()["choices"] for answer in answers)
    assert first == again
    assert first[0]["text"] != first[1]["text"]
    served.configure()
