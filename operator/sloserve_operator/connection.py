"""The connection to the API server: credentials, and one call with a deadline. `kube` is built on it.

Nothing is discovered: `kinds` has every path. Credentials are read again when the server no longer takes
them, so a token that is rotated in its file costs one request. A server that answers 429 or 503 with
Retry-After gets no further call for that long, whoever would make it; the Lease alone goes on, or a leader
that waits politely would lose it.

With leader election, `time_left` says for how long this process may write: a write ends before that time is
up, and none begins after it.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import ApiException
from kubernetes.aio.config import ConfigException
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.dynamic.resource import Resource

from .api.resource import Object
from .kinds import KINDS

LONGEST_PATIENCE_SECONDS = 60.0


class KubeError(Exception):
    """A call that failed: HTTP status (0 if the server did not answer) and the server's sentence.

    `retry_after`: seconds for which the server asks to be left alone.
    """

    def __init__(self, action: str, status: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(f"{action}: {message}")
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def refused(self) -> bool:
        """The same request will be refused again: the object itself is at fault."""
        undeclared = self.status == 500 and "field not declared in schema" in self.message
        return self.status in (400, 405, 413, 415, 422) or undeclared


class Connection:
    """Where the API server is, who we are there, and how a call to it ends."""

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout, self._clock = timeout, clock
        self.time_left: Callable[[], float] = lambda: float("inf")
        self._kubeconfig: Path | None = None
        self.configuration: Any = client.Configuration()
        self._api: Any = None
        self._resources: dict[str, Any] = {}
        self._patience = 0.0  # until when the server wants to be left alone

    async def connect(self, kubeconfig: Path | None) -> None:
        """Read the credentials; the first call makes the connection.

        Raises:
            ConfigException, OSError: there are none that could be read.
        """
        self._kubeconfig = kubeconfig
        await self.login()
        self._api = client.ApiClient(self.configuration)
        dynamic = DynamicClient(self._api)
        for kind in KINDS.values():
            self._resources[kind.kind] = Resource(
                prefix="apis" if kind.group else "api",
                group=kind.group,
                api_version=kind.version,
                kind=kind.kind,
                namespaced=True,
                name=kind.plural,
                client=dynamic,
                subresources={
                    "status": {"kind": kind.kind, "name": f"{kind.plural}/status", "namespaced": True}
                },
            )
        self._dynamic = dynamic

    async def login(self) -> None:
        """Read the credentials anew: files may have other content than before."""
        if self._kubeconfig:
            with _usable_kubeconfig():
                await config.load_kube_config(
                    config_file=str(self._kubeconfig), client_configuration=self.configuration
                )
        else:
            config.load_incluster_config(client_configuration=self.configuration)

    async def close(self) -> None:
        """End the connections."""
        if self._api:
            await self._api.close()

    def _deadline(self, action: str, verb: str, kind: str, within: float | None) -> float:
        """Seconds that a call may take. KubeError for one that must not be made now."""
        wanted = within or self._timeout
        if kind == "Lease":
            return wanted
        if (patience := self._patience - self._clock()) > 0:
            asked = f"the API server asked for {patience:.3g} s of patience"
            raise KubeError(action, 429, asked, patience)
        if verb == "get":
            return wanted
        left = self.time_left()
        if left <= 0:
            raise KubeError(action, 0, "this process is not the leader: nothing is written")
        return min(wanted, left)

    async def _call(
        self,
        action: str,
        verb: str,
        kind: str,
        /,
        *,
        sub: str | None = None,
        within: float | None = None,
        strict: bool = False,
        **params: Any,
    ) -> Object:
        seconds = self._deadline(action, verb, kind, within)
        resource = self._resources[kind]
        target = resource.subresources[sub] if sub else resource
        params |= {"serialize": False, "_request_timeout": seconds}

        async def send() -> Any:
            # A new list each time: the client adds to it.
            query = [("fieldValidation", "Strict")] if strict else []
            return await getattr(self._dynamic, verb)(target, query_params=query, **params)

        try:
            async with asyncio.timeout(seconds):
                try:
                    response = await send()
                except ApiException as error:
                    if error.status != 401:
                        raise
                    await self.login()
                    response = await send()
                answer: Object = await response.json()
                return answer
        except ApiException as error:
            patience = min(_retry_after(error), LONGEST_PATIENCE_SECONDS)
            self._patience = max(self._patience, self._clock() + patience)
            raise KubeError(action, int(error.status or 0), _sentence(error), patience) from None
        except ConfigException as error:
            raise KubeError(action, 401, f"the credentials cannot be read: {error}") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise KubeError(action, 0, f"the answer is no JSON: {error}") from None
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            text = str(error) or f"no answer within {seconds:.3g} s"
            raise KubeError(action, 0, text) from None


@contextmanager
def _usable_kubeconfig() -> Iterator[None]:
    """ConfigException in one line for a file that is none, whatever it is instead."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # the client trips over what it did not expect in its own ways
        shape = isinstance(error, TypeError | AttributeError | KeyError)
        said = "it has another shape" if shape else " ".join(str(error).split()) or repr(error)
        remedy = "write it anew with `kubectl config view --raw --flatten`"
        raise ConfigException(f"it is not a usable kubeconfig ({said}): {remedy}") from None


def _sentence(error: ApiException) -> str:
    """The server's own words."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason or error.status)


def _retry_after(error: ApiException) -> float:
    """Seconds of the header Retry-After; Kubernetes sends no dates."""
    try:
        return max(0.0, float((error.headers or {})["Retry-After"]))
    except (KeyError, TypeError, ValueError):
        return 0.0
