"""A request's promise: what a client may ask for, checked, and the numbers it gets, frozen at arrival.

The middleware reads headers into an `Asked`; the wrapper of vLLM's `process_inputs` adds `vllm_xargs`,
resolves both against the configuration in force and writes the result under `KEY` of `extra_args`. The core
reads numbers alone and never looks a class up, so a class that is removed while requests of it run breaks
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from slidingserve.config import EngineConfig
from slidingserve.config_json import ConfigError
from slidingserve.server.numbers import clamped, milliseconds

KEY = "slidingserve"
"""Our key in `extra_args`. Whatever a client put there is overwritten."""

HEADERS = {
    b"x-slo-class": "slo_class",
    b"x-slo-ttft-ms": "ttft_ms",
    b"x-slo-tbt-ms": "tbt_ms",
}
ALIASES = {b"x-llm-d-slo-ttft-ms": "ttft_ms", b"x-llm-d-slo-tpot-ms": "tbt_ms"}
XARGS = {"slo_class": "slo_class", "slo_ttft_ms": "ttft_ms", "slo_tbt_ms": "tbt_ms"}


class PromiseError(ValueError):
    """A promise that cannot be given; `param` is the header or field, the message names it, its value and
    the remedy."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(f"{param}: {message}")
        self.param = param


class SoloTimes(Protocol):
    """How long a prompt takes alone on this engine, the base of a slowdown limit."""

    def seconds(self, prompt_tokens: int) -> float:
        """Seconds from arrival to first token, serving overhead included."""
        ...


@dataclass(frozen=True)
class Asked:
    """What one request asked for; None where it said nothing."""

    slo_class: str | None = None
    ttft_ms: float | None = None
    """Milliseconds, from 0 to infinity: `resolve` gives what is served."""
    tbt_ms: float | None = None

    def over(self, other: Asked) -> Asked:
        """This, with the other's values where this says nothing."""
        return Asked(
            self.slo_class if self.slo_class is not None else other.slo_class,
            self.ttft_ms if self.ttft_ms is not None else other.ttft_ms,
            self.tbt_ms if self.tbt_ms is not None else other.tbt_ms,
        )

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[bytes, bytes]], config: EngineConfig) -> Asked:
        """Read and check the headers (lower-case names, as ASGI gives them), also those that do not count:
        our names win over the aliases, and of a name that is there twice the first.

        Raises PromiseError.
        """
        asked = cls()
        for names in (HEADERS, ALIASES):
            for name, value in headers:
                if name in names:
                    text = value.decode("latin-1").strip(" \t")
                    asked = asked.over(_one(names[name], text, name.decode(), config))
        return asked

    @classmethod
    def from_xargs(cls, extra_args: Mapping[str, Any], config: EngineConfig) -> Asked:
        """Read and check `vllm_xargs` of the body, which vLLM hands on as `extra_args`. Raises
        PromiseError."""
        asked = cls()
        for name, value in extra_args.items():
            if name in XARGS and not (name == "slo_class" and value is None):
                asked = asked.over(_one(XARGS[name], value, f"vllm_xargs.{name}", config))
        return asked


def _one(field: str, value: Any, param: str, config: EngineConfig) -> Asked:
    """One header or field, checked. Raises PromiseError."""
    try:
        if field == "slo_class":
            return Asked(slo_class=config.slo_class(value).name)
        number = milliseconds(value)
        return Asked(ttft_ms=number) if field == "ttft_ms" else Asked(tbt_ms=number)
    except (ConfigError, ValueError) as error:
        raise PromiseError(param, str(error)) from None


@dataclass(frozen=True)
class Promise:
    """The numbers a request is held to: L_ttft and L_tbt of equation 1 in seconds, and where they come
    from."""

    slo_class: str
    ttft: float
    tbt: float
    safeguard: bool = False
    generation: int = 0
    clamped: bool = False
    """The request asked for a limit that is nearer or further than any that is served."""

    def to_extra(self, arrival: float) -> dict[str, Any]:
        """What travels to the core. `arrival`: wall clock of the front end, seconds."""
        return {
            "class": self.slo_class,
            "ttft_s": self.ttft,
            "tbt_s": self.tbt,
            "safeguard": self.safeguard,
            "generation": self.generation,
            "arrival": arrival,
        }


def resolve(asked: Asked, config: EngineConfig, prompt_tokens: int, solo: SoloTimes) -> Promise:
    """Turn what was asked into numbers: a limit of the request wins over its class's; a slowdown is frozen
    now."""
    slo = config.slo_class(asked.slo_class)
    if asked.ttft_ms is not None:
        ttft_ms = asked.ttft_ms
    else:
        alone = solo.seconds(prompt_tokens) if slo.ttft_slowdown is not None else 0.0
        ttft_ms = slo.ttft_seconds(alone) * 1000
    tbt_ms = asked.tbt_ms if asked.tbt_ms is not None else slo.tbt_milliseconds
    ttft, tbt = clamped(ttft_ms), clamped(tbt_ms)
    asks = ((asked.ttft_ms, ttft), (asked.tbt_ms, tbt))
    return Promise(
        slo.name,
        ttft / 1000,
        tbt / 1000,
        slo.safeguard,
        config.generation,
        clamped=any(limit is not None and limit != served for limit, served in asks),
    )
