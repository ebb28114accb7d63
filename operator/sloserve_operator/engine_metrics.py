"""Reads what engines say of themselves, on the pods' own port with a short deadline. Called by `observe`."""

import asyncio
from typing import Protocol

import aiohttp
from pydantic import ValidationError

from .api.engine import EngineState
from .desired.command import PORT

MOST_BYTES = 1 << 20


class EngineReader(Protocol):
    """What `observe` needs; tests put their own in its place."""

    async def read(self, address: str) -> EngineState | str:
        """State of the engine at a pod IP, or why there is none."""


class EngineClient:
    """Reader over HTTP."""

    def __init__(self, timeout: float) -> None:
        # No proxies from the environment: pod IPs are inside the cluster.
        # Nothing is unpacked: a small answer that unfolds to gigabytes is none of an engine's.
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout),
            trust_env=False,
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
        )
        self._slots = asyncio.Semaphore(32)
        self._timeout = timeout

    async def close(self) -> None:
        """End the connections."""
        await self._session.close()

    async def read(self, address: str) -> EngineState | str:
        """State of the engine at a pod IP, or why there is none, in words."""
        host = f"[{address}]" if ":" in address else address
        url = f"http://{host}:{PORT}/slidingserve/v1/state"
        try:
            async with self._slots, self._session.get(url, allow_redirects=False) as response:
                if response.status != 200:
                    return f"answered {response.status} to GET /slidingserve/v1/state"
                body = bytearray()
                async for part in response.content.iter_any():
                    body += part
                    if len(body) > MOST_BYTES:
                        return f"answered with a state of more than {MOST_BYTES} bytes"
                return EngineState.model_validate_json(bytes(body))
        except TimeoutError:
            return f"did not answer within {self._timeout:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return f"cannot be reached ({type(error).__name__})"
        except ValidationError as error:
            return f"answered with a state that this operator does not understand ({_first(error)})"


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, without the value: it is somebody else's text."""
    item = error.errors(include_url=False, include_input=False)[0]
    place = "".join(c if c.isprintable() else "?" for c in ".".join(map(str, item["loc"]))[:100])
    return f"{place or 'the whole'}: {item['msg'][:200]}"
