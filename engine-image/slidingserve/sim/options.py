"""What the simulator's commands share: options about engine and promises, and policies in words.

`--policy sarathi_edf:budget=128` names a policy and changes settings of it, or of its predictor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError, create_model

from slidingserve import hardware, policies
from slidingserve.config_options import options_model
from slidingserve.core.settings import PolicySettings
from slidingserve.hardware import Hardware
from slidingserve.sim.config import PredictorConfig, SimConfig, SimError, check_seed
from slidingserve.sim.goodput import CRITERIA, Criterion
from slidingserve.sim.jobs import Job
from slidingserve.workloads import Trace
from slidingserve.workloads.options import opened
from slidingserve.workloads.rows import Reading, Report
from slidingserve.workloads.slo import Slo, promises

DEFAULT_HARDWARE = "rtx3090-tp2-llama3.1-8b"

PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME[:KEY=VALUE,...]",
        help=f"{', '.join(policies.names())}; with settings after a colon, as in sarathi_edf:budget=128 or "
        "slidingserve_paper:alpha=0.6,margin=1.3. Predictor: fit_seed, samples, refresh_seconds, method.",
    ),
]
PoliciesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME[:KEY=VALUE,...]",
        help=f"Repeatable. {', '.join(policies.names())}; with settings after a colon, as in "
        "sarathi_edf:budget=128.",
    ),
]
HardwareOption = Annotated[
    str, typer.Option("--hardware", metavar="PROFILE", help=f"One of {', '.join(hardware.names())}.")
]
Overhead = Annotated[
    float | None,
    typer.Option(
        "--serving-overhead", help="Milliseconds of a solo time beside batches; default: the profile's."
    ),
]
Noise = Annotated[
    float | None, typer.Option("--noise", help="Sigma of the lognormal factor on batch times; default 0.02.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Most tokens of a batch; default: vLLM's there.")
]
MaxRequests = Annotated[
    int | None, typer.Option("--max-requests", help="Most requests that run at once; default: vLLM's there.")
]
KvTokens = Annotated[
    int | None, typer.Option("--kv-tokens", help="Size of the KV cache; default: what is left of the memory.")
]
PrefixCaching = Annotated[
    bool, typer.Option("--prefix-caching/--no-prefix-caching", help="Reuse blocks of equal prefixes.")
]
AsyncOption = Annotated[
    bool, typer.Option("--async/--sync", help="Plan a batch while the one before it runs, as vLLM can.")
]
CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", metavar="DIR", help="Where runs are kept; default: your cache directory."),
]
Workers = Annotated[int, typer.Option("--workers", help="Processes to simulate in.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", metavar="FILE.json", help="Write the result as JSON.")
]
CsvOption = Annotated[Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write the rows as CSV.")]

_PREDICTOR = tuple(field.name for field in fields(PredictorConfig) if field.name not in ("oracle", "model"))
_MORE: dict[str, Any] = {
    "alpha": (FiniteFloat, Field(PolicySettings.alpha, gt=0)),
    "min_chunk": (int, Field(PolicySettings.min_chunk, ge=1, le=1 << 20)),
    "max_chunk": (int | None, Field(PolicySettings.max_chunk, ge=1, le=1 << 20)),
}


_MOST_SEEDS = 10_000
_MOST_OVERHEAD = 3.6e6


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def base(
    name: str, overhead_ms: float | None, noise: float | None, max_tokens: int | None,
    max_requests: int | None, kv_tokens: int | None, prefix_caching: bool, asynchronous: bool,
) -> SimConfig:  # fmt: skip
    """The engine that the options describe, under the default policy. Raises ValueError in one sentence."""
    return SimConfig(
        profile(name, overhead_ms, noise),
        max_tokens=max_tokens,
        max_requests=max_requests,
        kv_tokens=kv_tokens,
        prefix_caching=prefix_caching,
        async_scheduling=asynchronous,
    )


def profile(name: str, overhead_ms: float | None, noise: float | None) -> Hardware:
    """The hardware under the given conditions. Raises ValueError in one sentence."""
    found = hardware.get(name)
    if overhead_ms is not None and overhead_ms > _MOST_OVERHEAD:
        raise SimError(f"--serving-overhead {overhead_ms:g}: give at most {_MOST_OVERHEAD:g} ms")
    if overhead_ms is not None:
        found = hardware.with_overhead(found, overhead_ms / 1000)
    return found if noise is None else hardware.with_noise(found, noise)


def engine(text: str, base: SimConfig) -> SimConfig:
    """`base` under the policy that NAME[:KEY=VALUE,...] says. Raises SimError in one sentence."""
    name, _, rest = text.partition(":")
    pairs: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise SimError(f"--policy {text!r}: write NAME:KEY=VALUE,KEY=VALUE")
        if key.strip() in pairs:
            raise SimError(f"--policy {text!r}: {key.strip()} is there twice; give it once")
        pairs[key.strip()] = None if value.strip() in ("none", "off") else value.strip()
    learning = {key: pairs.pop(key) for key in _PREDICTOR if key in pairs}
    try:
        _bounds().model_validate(pairs)
        settings = TypeAdapter(PolicySettings).validate_python(pairs)
        predictor = TypeAdapter(PredictorConfig).validate_python({**_as_given(base.predictor), **learning})
    except ValidationError as error:
        raise SimError(_sentence(text, error)) from None
    if settings.max_chunk is not None and settings.max_chunk < settings.min_chunk:
        low = f"min_chunk {settings.min_chunk}"
        raise SimError(
            f"--policy {text!r}: max_chunk {settings.max_chunk} is below {low}; raise it or lower that"
        )
    return replace(base, policy=name, settings=settings, predictor=predictor)


@cache
def _bounds() -> type[BaseModel]:
    """Types and bounds of the settings, as the live configuration has them."""
    made: type[BaseModel] = create_model("Settings", __base__=options_model(_Strict), **_MORE)
    return made


def _as_given(config: PredictorConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in _PREDICTOR}


def _sentence(text: str, error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted([*(field.name for field in fields(PolicySettings)), *_PREDICTOR]))
        return f"--policy {text!r}: {place!r} is no setting; choose from {known}"
    if first["type"] == "value_error":
        return f"--policy {text!r}: {first['ctx']['error']}"
    return f"--policy {text!r}: {place} {first.get('input')!r}: {first['msg'].lower()}"


@dataclass(frozen=True)
class Source:
    """Where requests come from, and what they are promised."""

    workload: str
    requests: int | None
    arrivals: str | None
    reading: Reading
    slos: dict[str, Slo]

    def trace(self, qps: float | None, seed: int) -> tuple[Trace, Report | None]:
        """The requests at a rate. Raises WorkloadError."""
        return opened(
            self.workload,
            requests=self.requests,
            qps=qps,
            arrivals=self.arrivals,
            seed=seed,
            reading=self.reading,
        )

    def notes(self, qps: float | None, seed: int) -> list[str]:
        """What reading a file found, in sentences."""
        report = self.trace(qps, seed)[1]
        return report.lines() if report is not None else []

    def job(self, config: SimConfig, qps: float | None, seed: int) -> Job:
        """One run; `seed` is that of the requests and of the noise."""
        trace, _ = self.trace(qps, seed)
        solo = hardware.solo_seconds(config.hardware, trace.prompt_tokens)
        return Job(config, trace, *promises(trace, solo, self.slos), seed)


def chosen(texts: Sequence[str] | None, base: SimConfig) -> dict[str, SimConfig]:
    """The engines of repeated --policy options, by their texts; the default policy if there is none."""
    return {text: engine(text, base) for text in texts or [policies.DEFAULT_POLICY]}


def criterion(text: str) -> Criterion:
    """One of the two. Raises SimError."""
    for known in CRITERIA:
        if text == known:
            return known
    raise SimError(f"--criterion {text!r}: is none of {', '.join(CRITERIA)}")


def rate(qps: float) -> float:
    """A rate to start from. Raises SimError."""
    if not 0 < qps < float("inf"):
        raise SimError(f"--start {qps:g}: is no rate; give requests a second above 0")
    return qps


def check_workers(count: int) -> None:
    """Raises SimError."""
    if not 1 <= count <= 256:
        raise SimError(f"--workers {count}: give 1 to 256")


def seeds_of(first: int, count: int) -> list[int]:
    """`count` seeds from `first` on. Raises SimError."""
    if not 1 <= count <= _MOST_SEEDS:
        raise SimError(f"--seeds {count}: give 1 or more, up to {_MOST_SEEDS}")
    check_seed("seed", first)
    return list(range(first, first + count))
