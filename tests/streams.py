"""A steady load of streamed answers from an emulated engine, each checked to its end; for tests of the drain.

As the clients that a Service has: each keeps its one connection alive and repeats nothing, so a request that
a stopping engine refuses, cuts or never answers is lost, and counted. Emulated engines give one character a
token, and the same prompt the same text: a token that is missing, doubled or another's is seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count

import httpx


@dataclass
class Clients:
    """`long` of `size` clients stream long answers one after the other, the others short ones with pauses."""

    url: str
    model: str = "tiny"
    key: str = ""
    size: int = 12
    long: int = 6
    long_tokens: int = 400
    short_tokens: int = 5
    complete: Counter[int] = field(default_factory=Counter)
    """Whole answers by client."""
    lost: list[str] = field(default_factory=list)
    """What became of the requests that had no whole answer."""
    _texts: dict[int, str] = field(default_factory=dict)
    """The longest answer to each client's prompt."""
    _stop: bool = False

    @property
    def sent(self) -> int:
        """Requests that have ended, well or not."""
        return self.complete.total() + len(self.lost)

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[Clients]:
        """Send until the block ends, and let every request end by itself."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.size):
                client = await self._connected(number)
                tasks.create_task(self._repeat(number, client))
            try:
                yield self
            finally:
                self._stop = True

    async def one_more_each(self) -> None:
        """Return when each client had another answer, or one was lost."""
        before, lost = Counter(self.complete), len(self.lost)
        while (  # noqa: ASYNC110 - any of many tasks may end it
            not all(self.complete[n] > before[n] for n in range(self.size)) and len(self.lost) == lost
        ):
            await asyncio.sleep(0.1)

    async def until(self, number: int) -> None:
        """Return when so many requests have ended, or one was lost."""
        while self.sent < number and not self.lost:  # noqa: ASYNC110 - any of many tasks may end it
            await asyncio.sleep(0.1)

    async def _connected(self, number: int) -> httpx.AsyncClient:
        """One client, one connection, made in turn so that each endpoint has its share of them."""
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=600)
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        client = httpx.AsyncClient(
            base_url=self.url, limits=limits, timeout=120, headers=headers, trust_env=False
        )
        await self._ask(client, number, self.short_tokens)
        return client

    async def _repeat(self, number: int, client: httpx.AsyncClient) -> None:
        async with contextlib.aclosing(client):
            for turn in count():
                if self._stop:
                    return
                long = number < self.long
                await self._ask(client, number, self.long_tokens if long else self.short_tokens)
                if not long or self.lost:
                    await asyncio.sleep(0.1 + (number * 7 + turn * 3) % 10 / 10)

    async def _ask(self, client: httpx.AsyncClient, number: int, tokens: int) -> None:
        body = {"model": self.model, "prompt": f"hello {number}", "max_tokens": tokens, "stream": True}
        text, ended = "", False
        try:
            async with client.stream(
                "POST", "/v1/completions", json={**body, "ignore_eos": True, "temperature": 0}
            ) as answer:
                if answer.status_code != 200:
                    self.lost.append(f"{answer.status_code}: {(await answer.aread()).decode()}")
                    return
                async for line in answer.aiter_lines():
                    ended |= line == "data: [DONE]"
                    if line.startswith("data: {"):
                        document = json.loads(line[6:])
                        text += "".join(choice["text"] for choice in document.get("choices", ()))
        except httpx.HTTPError as error:
            self.lost.append(f"{error!r} after {len(text)} of {tokens} tokens")
            return
        known = self._texts.setdefault(number, text)
        if len(text) > len(known):
            self._texts[number] = text
        if ended and len(text) == tokens and (known.startswith(text) or text.startswith(known)):
            self.complete[number] += 1
        else:
            self.lost.append(f"{len(text)} of {tokens} tokens, {'' if ended else 'no '}[DONE]: {text!r}")
