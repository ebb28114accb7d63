"""An API server's view of the engine: who it is, whether it answers, and how it gets ready.

Ready needs a real token: `/health` is green on engines whose first completion fails. The first API server
then calibrates the predictor by real requests (see `calibrate`), unless a stored profile fits; the others
wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from slidingserve.server.runtime import NO_HOOKS, Runtime, ready_mark
from slidingserve.vllm_adapter import identity
from slidingserve.vllm_adapter.calibrate import calibrate
from slidingserve.vllm_adapter.gate import installed_version

logger = logging.getLogger("vllm.slidingserve")

RETRY_SECONDS = 2.0
POLL_SECONDS = 0.2


class Engine:
    """Wraps vLLM's engine client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        config = client.vllm_config
        self.index = identity.api_index(config)
        self.expected = identity.processes(config)
        self.limits = identity.limits_of(config)
        self.vllm_version = installed_version()
        self.vocabulary = int(config.model_config.get_vocab_size())
        self.progress = "no token was generated yet"
        """Why the engine is not ready, or ""."""
        self._task: asyncio.Task[None] | None = None

    def begin(self, runtime: Runtime) -> None:
        """Get ready, in a task of the running loop."""
        self._task = asyncio.create_task(self._prepare(runtime))

    async def ping(self, timeout: float) -> str:  # noqa: ASYNC109 - one deadline for the whole answer is the point
        """Ask every core; "" if all answered in `timeout` seconds, else why not."""
        try:
            async with asyncio.timeout(timeout):
                await self.ask("slidingserve_ping")
        except TimeoutError:
            return f"the engine core did not answer within {timeout:g} s"
        except Exception as error:
            return f"the engine core does not answer: {error}"
        return ""

    async def ask(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every engine core, between its steps."""
        answers: list[Any] = await self._client.engine_core.call_utility_all_async(method, *args)
        return answers

    async def generate(self, prompt: list[int], tokens: int) -> AsyncIterator[int]:
        """Generate greedily from token ids, past any end of text; yields the number of new tokens each
        time."""
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        params = SamplingParams(
            max_tokens=tokens,
            temperature=0.0,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        name = f"slidingserve-{uuid.uuid4().hex}"
        # A salt of its own: no prefix of a calibration is ever found in the cache, nor left for a user's
        # request.
        async for output in self._client.generate(tokens_input(prompt, cache_salt=name), params, name):
            yield sum(len(sequence.token_ids) for sequence in output.outputs)

    async def _prepare(self, runtime: Runtime) -> None:
        await self._first_token()
        marker = ready_mark(runtime)
        if self.index == 0:
            try:
                await self._calibrate(runtime.calibration_seconds)
            except Exception:
                # The predictor refreshes while serving: an engine with the cautious default model is better
                # than none.
                logger.exception("slidingserve: calibration failed, starting with the default model")
            await asyncio.to_thread(marker.touch)
        else:
            self.progress = "waiting for the first API server to calibrate"
            while not await asyncio.to_thread(Path.exists, marker):  # noqa: ASYNC110 - another process sets it
                await asyncio.sleep(POLL_SECONDS)
        self.progress = ""
        logger.info("slidingserve: ready")

    async def _first_token(self) -> None:
        prompt = [token % self.vocabulary for token in (1, 2, 3, 4)]
        while True:
            try:
                if sum([count async for count in self.generate(prompt, 2)]):
                    self.progress = "calibrating"
                    return
            except Exception as error:
                self.progress = f"the first token failed: {error}"
                logger.warning("slidingserve: %s; trying again", self.progress)
            await asyncio.sleep(RETRY_SECONDS)

    async def _calibrate(self, seconds: float) -> None:
        answers = await self.ask("slidingserve_calibration", "ask")
        if "no" not in answers or not seconds:
            return
        try:
            await calibrate(self, seconds)
        finally:
            await self.ask("slidingserve_calibration", "end")
            await self._client.reset_prefix_cache()


class UnknownEngine:
    """In place of `Engine` on a vLLM that the gate does not know: nothing of it is touched but its health
    check."""

    index = 0
    expected: Mapping[str, int] = {"api": 1, "core": 0}
    limits = identity.Limits(max_batch_tokens=1 << 30, max_model_len=2048, max_requests=1, device="cuda")
    progress = ""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.vllm_version = installed_version()

    def begin(self, runtime: Runtime) -> None:
        """Nothing to do: no token is asked for, no predictor to calibrate."""

    async def ping(self, timeout: float) -> str:  # noqa: ASYNC109 - as in Engine
        """vLLM's own health check; "" if it passes in time, else why not."""
        try:
            async with asyncio.timeout(timeout):
                await self._client.check_health()
        except TimeoutError:
            return f"the engine did not answer within {timeout:g} s"
        except Exception as error:
            return f"the engine is not healthy: {error!r}"
        return ""


def connect(client: Any) -> Engine | UnknownEngine:
    """The view of the engine behind vLLM's client."""
    return UnknownEngine(client) if os.environ.get(NO_HOOKS) else Engine(client)
