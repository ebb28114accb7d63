"""Readiness of an API server: a real token and the calibration first, whatever the speed of the machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from slidingserve.server.routes import router
from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter import client


class HeldEngine(client.Engine):
    """An engine whose core gives its first token, and its leave to calibrate, when the test says so."""

    def __init__(self) -> None:
        self.index, self.progress, self.vocabulary = 0, "no token was generated yet", 10
        self.asked, self.first_token, self.calibrate = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def generate(self, prompt: list[int], tokens: int) -> AsyncIterator[int]:
        self.asked.set()
        await self.first_token.wait()
        yield 1

    async def ask(self, method: str, *args: Any) -> list[Any]:
        if method == "slidingserve_calibration":
            await self.calibrate.wait()
        return ["yes"]


async def ready(engine: HeldEngine) -> tuple[int, str]:
    app = FastAPI()
    app.include_router(router)
    app.state.slidingserve_engine = engine
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://engine") as http:
        answer = await http.get("/slidingserve/v1/ready")
    return answer.status_code, answer.json()["reason"]


async def settled(engine: HeldEngine, progress: str) -> None:
    async with asyncio.timeout(5):
        while engine.progress != progress:  # noqa: ASYNC110 - the state that users see, not an event of ours
            await asyncio.sleep(0.001)


async def test_ready_is_503_with_the_reason_until_a_token_came_and_the_predictor_is_measured(
    tmp_path: Path,
) -> None:
    runtime = Runtime(state_dir=tmp_path)
    runtime.process_dir.mkdir()
    engine = HeldEngine()
    assert await ready(engine) == (503, "no token was generated yet")
    engine.begin(runtime)
    await engine.asked.wait()
    assert await ready(engine) == (503, "no token was generated yet")
    engine.first_token.set()
    await settled(engine, "calibrating")
    assert await ready(engine) == (503, "calibrating")
    engine.calibrate.set()
    await settled(engine, "")
    assert await ready(engine) == (200, "")


async def test_a_first_token_that_fails_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = HeldEngine()

    async def fails(prompt: list[int], tokens: int) -> AsyncIterator[int]:
        raise RuntimeError("no kernel image")
        yield 0

    monkeypatch.setattr(engine, "generate", fails)
    engine.begin(Runtime(state_dir=tmp_path))
    await settled(engine, "the first token failed: no kernel image")
    assert (await ready(engine))[0] == 503
    assert isinstance(engine._task, asyncio.Task)
    engine._task.cancel()


async def test_a_vllm_that_the_gate_does_not_know_is_healthy_by_its_own_word_and_in_time() -> None:
    async def fine() -> None: ...

    async def dead() -> None:
        raise RuntimeError("EngineCore died")

    async def silent() -> None:
        await asyncio.Event().wait()

    engines = [client.UnknownEngine(SimpleNamespace(check_health=says)) for says in (fine, dead, silent)]
    assert [await engine.ping(0.01) for engine in engines] == [
        "",
        "the engine is not healthy: RuntimeError('EngineCore died')",
        "the engine did not answer within 0.01 s",
    ]
