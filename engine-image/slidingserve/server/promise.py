"""A request's promise: what a client may ask for, checked, and the numbers it gets, frozen at arrival.

The middleware reads headers into an `Asked`; the wrapper of vLLM's `process_inputs` adds `vllm_xargs`,
resolves both against the configuration in force and writes the result under `KEY` of `extra_args`. The core
reads numbers alone and never looks a class up, so a class that is removed while requests of it run breaks
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from slidingserve.config import ConfigError, EngineConfig

KEY = "slidingserve"
"""Our key in `extra_args`. Whatever a client put there is overwritten."""

MAX_MILLISECONDS = 86_400_000.0

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
        """Read and check the headers (lower-case names, as ASGI gives them). Our names win over the aliases.

        Raises PromiseError.
        """
        found: dict[str, Any] = {}
        named: dict[str, str] = {}
        for names in (ALIASES, HEADERS):
            for name, value in headers:
                if name in names:
                    found[names[name]] = value.decode("latin-1").strip()
                    named[names[name]] = name.decode()
        return _checked(found, named, config)

    @classmethod
    def from_xargs(cls, extra_args: Mapping[str, Any], config: EngineConfig) -> Asked:
        """Read and check `vllm_xargs` of the body, which vLLM hands on as `extra_args`. Raises
        PromiseError."""
        found = {XARGS[name]: value for name, value in extra_args.items() if name in XARGS}
        return _checked(found, {field: f"vllm_xargs.{name}" for name, field in XARGS.items()}, config)


def _checked(found: Mapping[str, Any], named: Mapping[str, str], config: EngineConfig) -> Asked:
    name = found.get("slo_class")
    if name is not None:
        try:
            config.slo_class(name)
        except ConfigError as error:
            raise PromiseError(named["slo_class"], str(error)) from None
    numbers = {
        field: _milliseconds(found[field], named[field]) for field in ("ttft_ms", "tbt_ms") if field in found
    }
    return Asked(name, numbers.get("ttft_ms"), numbers.get("tbt_ms"))


def _milliseconds(value: Any, param: str) -> float:
    """A positive number of milliseconds, at most a day."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number <= MAX_MILLISECONDS:  # false for NaN too
        raise PromiseError(
            param,
            f"{_short(value)} is not a number of milliseconds above 0 and at most {MAX_MILLISECONDS:.0f}",
        )
    return number


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Promise:
    """The numbers a request is held to: L_ttft and L_tbt of equation 1 in seconds, and where they come
    from."""

    slo_class: str
    ttft: float
    tbt: float
    safeguard: bool = False
    generation: int = 0

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
        ttft = asked.ttft_ms / 1000
    else:
        ttft = slo.ttft_seconds(solo.seconds(prompt_tokens) if slo.ttft_slowdown is not None else 0.0)
    tbt = asked.tbt_ms / 1000 if asked.tbt_ms is not None else slo.tbt_seconds
    return Promise(slo.name, ttft, tbt, slo.safeguard, config.generation)
