"""Real requests through the Service: streams, refusals, and outputs equal to those of stock order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import openai
import pytest

from tests.demo.engine import samples
from tests.demo.load import OURS, STOCK
from tests.e2e.conftest import Demo

pytestmark = pytest.mark.cluster

Outputs = list[list[int]]


def client(demo: Demo) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=demo.engine.api, api_key="unused", max_retries=2, timeout=120)


async def test_chat_completions_stream_through_the_service(demo: Demo) -> None:
    model = demo.engine.models()[0]
    async with client(demo) as api:
        stream = await api.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Which promises do you keep?"}],
            max_tokens=24,
            stream=True,
            extra_headers={"x-slo-class": "summarization"},
        )
        chunks = [chunk.choices[0] async for chunk in stream if chunk.choices]
    assert chunks[-1].finish_reason == "length"
    assert sum(bool(choice.delta.content) for choice in chunks) > 12, (
        "tokens come one by one, not as one answer"
    )


async def test_an_unknown_class_is_refused_before_the_stream_begins(demo: Demo) -> None:
    async with client(demo) as api:
        with pytest.raises(openai.BadRequestError) as refusal:
            await api.completions.create(
                model=demo.engine.models()[0],
                prompt="x",
                stream=True,
                extra_headers={"x-slo-class": "absent"},
            )
    assert refusal.value.param == "x-slo-class"
    assert "dialogue" in refusal.value.message, "the sentence lists the classes there are"


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    """Token ids of many lengths, so that chunks of every kind are cut."""
    rng = random.Random(seed)
    return [[rng.randrange(16, 250) for _ in range(rng.choice((3, 40, 200, 700)))] for _ in range(count)]


async def generate(demo: Demo, prompts: Sequence[list[int]], salt: str) -> Outputs:
    """Greedy token ids for all prompts sent at once; the salt keeps the prefix cache out of it."""
    model = demo.engine.models()[0]
    async with client(demo) as api:
        answers = await asyncio.gather(
            *(
                api.completions.create(
                    model=model,
                    prompt=prompt,
                    max_tokens=16,
                    temperature=0,
                    extra_headers={"x-slo-class": ("dialogue", "summarization")[number % 2]},
                    extra_body={"return_token_ids": True, "cache_salt": salt, "ignore_eos": True},
                )
                for number, prompt in enumerate(prompts)
            )
        )
    return [list((answer.choices[0].model_extra or {})["token_ids"]) for answer in answers]


def differences(expected: Outputs, got: Outputs) -> list[int]:
    """Numbers of the prompts whose outputs differ."""
    return [n for n, pair in enumerate(zip(expected, got, strict=True)) if pair[0] != pair[1]]


def planned(demo: Demo) -> float:
    """Batches that our policy planned so far."""
    return sum(
        value
        for name, labels, value in samples(demo.engine.metrics())
        if name == "slidingserve_plans_total" and labels["branch"] not in ("stock", "fallback")
    )


def switch(demo: Demo, policy: str) -> None:
    demo.kube.patch(demo.name, {"scheduler": {"policy": policy}})
    demo.engine.wait_policy(policy)


async def test_greedy_outputs_equal_those_of_stock_order_on_the_same_engine(demo: Demo) -> None:
    asked = prompts(64)
    switch(demo, STOCK)
    before = planned(demo)
    stock = await generate(demo, asked, "stock")
    assert planned(demo) == before, "stock order is vLLM's own"
    switch(demo, OURS)
    ours = await generate(demo, asked, "ours")
    assert planned(demo) - before > 64, "our policy cut the batches"
    assert len({tuple(output) for output in stock}) >= 50
    assert differences(stock, ours) == []


async def test_the_comparison_sees_a_chunk_that_was_lost_or_swapped(demo: Demo) -> None:
    """What a scheduling fault does to a prompt, planted in the prompt: the outputs must all differ."""
    whole = [prompt for prompt in prompts(40, seed=1) if len(prompt) >= 200][:12]
    expected = await generate(demo, whole, "whole")
    lost = [prompt[:96] + prompt[112:] for prompt in whole]
    swapped = [prompt[:64] + prompt[80:96] + prompt[64:80] + prompt[96:] for prompt in whole]
    assert len(whole) == 12
    assert differences(expected, await generate(demo, whole, "again")) == []
    assert len(differences(expected, await generate(demo, lost, "lost"))) >= 10
    assert len(differences(expected, await generate(demo, swapped, "swapped"))) >= 10
