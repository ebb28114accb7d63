"""slidingserve.json: what the operator (or a person) writes and every process of an engine reads, live.

The models here are its truth; `python -m slidingserve.config` writes their JSON Schema beside this file. Keys
that this version does not know are collected, not fatal, so that a newer operator can configure an older
engine.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from slidingserve.config_errors import cut, sentences
from slidingserve.config_json import ConfigError, check_finite, check_text
from slidingserve.config_options import options_model
from slidingserve.core.settings import DEFAULT_ALPHA, PolicySettings

MAX_GENERATION = 2**53 - 1
"""The largest whole number that every reader holds exactly: JSON's, Prometheus' floats, 64-bit columns."""
__all__ = ["MAX_GENERATION", "ConfigError", "EngineConfig", "SloClass", "builtin", "loads", "revision_of"]

SCHEMA_FILE = Path(__file__).with_name("config.schema.json")

Milliseconds = Annotated[FiniteFloat, Field(gt=0, le=86_400_000)]
Generation = Annotated[int, Field(ge=0, le=MAX_GENERATION)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="allow", frozen=True, strict=True)


class SloClass(_Part):
    """A promise that requests can ask for by name: a time to the first token, a time a token after that."""

    name: Name = Field(description="What x-slo-class names: 1 to 63 letters, digits, dots, dashes")
    ttft_milliseconds: Milliseconds | None = Field(
        None, description="Time to the first token, or null if ttftSlowdown is given"
    )
    ttft_slowdown: Annotated[FiniteFloat, Field(ge=1, le=10_000)] | None = Field(
        None, description="The same as a multiple of the time that the prompt would take alone, for example 5"
    )
    tbt_milliseconds: Milliseconds = Field(description="Time a token after the first, for example 40")
    objective_percent: Annotated[FiniteFloat, Field(gt=0, le=100)] = Field(
        99.0,
        description="Share of requests that should keep the promise, above 0 and up to 100, for example 99",
    )
    safeguard: bool = Field(
        False, description="True if the scheduler should protect this class first, else false"
    )

    @model_validator(mode="after")
    def _one_first_token_limit(self) -> Self:
        if (self.ttft_milliseconds is None) == (self.ttft_slowdown is None):
            both = "both are" if self.ttft_slowdown is not None else "neither is"
            raise ValueError(f"{both} set; give ttftMilliseconds or ttftSlowdown, one of them")
        return self

    @property
    def tbt_seconds(self) -> float:
        """L_tbt."""
        return self.tbt_milliseconds / 1000

    def ttft_seconds(self, solo_seconds: float) -> float:
        """L_ttft for a prompt that would take `solo_seconds` alone on this engine."""
        if self.ttft_milliseconds is not None:
            return self.ttft_milliseconds / 1000
        return (self.ttft_slowdown or 1.0) * solo_seconds


class PredictorSettings(_Part):
    """The Batch Latency Predictor's live settings."""

    refresh_seconds: Annotated[FiniteFloat, Field(ge=0.1, le=86_400)] = Field(
        30.0, description="Seconds between refits on measured batches, 0.1 to 86400"
    )
    method: Literal["robust", "ols"] = Field(
        "robust",
        description="How it is fitted: robust (no weight below zero) or ols (the paper's least squares)",
    )
    expert_samples: Annotated[int, Field(ge=8, le=2048)] = Field(
        32, description="Batches from which on a scene has weights of its own, a whole number from 8 to 2048"
    )


class ChunkSettings(_Part):
    """Bounds on the prefill tokens of one step."""

    min_tokens: Annotated[int, Field(ge=1, le=1 << 20)] = Field(
        16, description="Fewest prefill tokens of a step that prefills, a whole number from 1"
    )
    max_tokens: Annotated[int, Field(ge=1, le=1 << 20)] | None = Field(
        None,
        description="Most prefill tokens of a step, a whole number from 1; null: what the batch holds",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_tokens is not None and self.max_tokens < self.min_tokens:
            raise ValueError(
                f"maxTokens {self.max_tokens} is below minTokens {self.min_tokens}; raise it or lower that"
            )
        return self


class OverloadSettings(_Part):
    """What happens above capacity."""

    mode: Literal["serve", "relegate"] = Field(
        "serve",
        description="Waiting requests that can no longer keep their promise: serve (tried all the same) or "
        "relegate (behind all others, for good); of slidingserve_paper",
    )


class MethodOptions(options_model(_Part)):  # type: ignore[misc]  # made from `PolicySettings`
    """How the method and its baselines are read and set: docs/method.md."""


class SchedulerSettings(_Part):
    """The policy and its live settings."""

    policy: Literal["fcfs", "ppas", "qoserve", "sarathi_edf", "slidingserve_paper"] = Field(
        "slidingserve_paper",
        description="The scheduling policy: fcfs (vLLM's own order), sarathi_edf, qoserve, ppas or "
        "slidingserve_paper",
    )
    alpha: Annotated[FiniteFloat, Field(ge=0)] | None = Field(
        None,
        description="Urgency above which a request is urgent, a number from 0; absent: the policy's own, 0.8",
    )
    predictor: PredictorSettings = Field(default_factory=lambda: PredictorSettings())
    chunk: ChunkSettings = Field(default_factory=lambda: ChunkSettings())
    overload: OverloadSettings = Field(default_factory=lambda: OverloadSettings())
    options: MethodOptions = Field(default_factory=lambda: MethodOptions())


class EngineConfig(_Part):
    """The whole file. Frozen: a live change is a new object, swapped by reference."""

    schema_version: Literal[1] = Field(description="Version of this format: 1")
    revision: Annotated[str, Field(pattern=r"^[0-9A-Za-z._-]{0,64}$")] = Field(
        "", description="The writer's label of this content, 12 hex digits; absent: made"
    )
    generation: Generation = Field(
        0,
        description="metadata.generation of the resource at which this content first appeared, a whole "
        "number from 0 to 2^53 - 1",
    )
    classes: Annotated[tuple[SloClass, ...], Field(min_length=1, max_length=64)] = Field(
        description="1 to 64 SLO classes, each with its own name"
    )
    default_class: Name = Field(description="Name of the class of requests that name none")
    scheduler: SchedulerSettings = Field(default_factory=lambda: SchedulerSettings())

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        names = [slo.name for slo in self.classes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"classes: {twice[0]!r} is there twice; give each class its own name")
        if self.default_class not in names:
            raise ValueError(
                f"defaultClass: {self.default_class!r} is no class; choose one of {', '.join(names)}"
            )
        return self

    @model_validator(mode="after")
    def _labelled(self) -> Self:
        if not self.revision:
            object.__setattr__(self, "revision", revision_of(self.model_dump(by_alias=True, mode="json")))
        return self

    def slo_class(self, name: str | None) -> SloClass:
        """The class of that name, for None the default one. Raises ConfigError with the names there are."""
        wanted = self.default_class if name is None else name
        for slo in self.classes:
            if slo.name == wanted:
                return slo
        raise ConfigError(
            f"{cut(repr(wanted))} is no SLO class; choose one of {', '.join(c.name for c in self.classes)}"
        )

    @property
    def alpha(self) -> float:
        """α in force."""
        return DEFAULT_ALPHA if self.scheduler.alpha is None else self.scheduler.alpha

    def policy_settings(self) -> PolicySettings:
        """What the policies see of this configuration."""
        chunk, options = self.scheduler.chunk, self.scheduler.options
        return PolicySettings(
            alpha=self.alpha,
            min_chunk=chunk.min_tokens,
            max_chunk=chunk.max_tokens,
            overload=self.scheduler.overload.mode,
            **{name: getattr(options, name) for name in MethodOptions.model_fields},
        )

    def check_engine(self, max_num_batched_tokens: int) -> None:
        """Refuse what only this engine can know to be wrong. Raises ConfigError."""
        chunk, budget = self.scheduler.chunk, self.scheduler.options.budget
        limit = f"the {max_num_batched_tokens} tokens that this engine's batch holds (max_num_batched_tokens)"
        tokens = {
            "chunk.maxTokens": chunk.max_tokens,
            "chunk.minTokens": chunk.min_tokens,
            "options.budget": budget,
        }
        for name, value in tokens.items():
            if value is not None and value > max_num_batched_tokens:
                remedy = f"give at most {max_num_batched_tokens}"
                raise ConfigError(f"scheduler.{name}: {value} is above {limit}; {remedy}")

    def unknown_keys(self) -> list[str]:
        """Paths of the keys that this version does not know, for example "scheduler.admission"; sorted."""
        return sorted(_unknown(self, ""))


def builtin() -> EngineConfig:
    """What holds without a file: one class "default", TTFT ten times the solo time, 100 ms a token."""
    classes = [{"name": "default", "ttftSlowdown": 10, "tbtMilliseconds": 100}]
    return loads(json.dumps({"schemaVersion": 1, "classes": classes, "defaultClass": "default"}))


def loads(text: str | bytes) -> EngineConfig:
    """Read slidingserve.json. Raises ConfigError with a sentence for each thing that is wrong, and nothing
    else, whatever the file holds."""
    try:
        check_text(text)
        read = EngineConfig.model_validate_json(text)
        check_finite(text)
        return read
    except ConfigError:
        raise
    except ValidationError as error:
        raise ConfigError(sentences(error, EngineConfig, whole="slidingserve.json")) from None
    except Exception as error:  # must not end the thread that keeps the last good one in force
        reason = cut(str(error) or type(error).__name__, 200)
        raise ConfigError(f"slidingserve.json: it cannot be read ({reason}); write it anew") from None


def revision_of(document: dict[str, Any]) -> str:
    """12 hex digits of SHA-256 over classes, defaultClass and scheduler as canonical JSON."""
    hot = {key: document.get(key) for key in ("classes", "defaultClass", "scheduler")}
    canonical = json.dumps(hot, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def schema_text() -> str:
    """The JSON Schema of slidingserve.json, as the file in the repository has it."""
    schema = EngineConfig.model_json_schema(by_alias=True)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def _unknown(part: _Part, path: str) -> Iterator[str]:
    yield from (path + key for key in part.model_extra or {})
    for name, info in type(part).model_fields.items():
        value = getattr(part, name)
        for i, item in enumerate(value if isinstance(value, tuple) else [value]):
            if isinstance(item, _Part):
                index = f"[{i}]" if isinstance(value, tuple) else ""
                yield from _unknown(item, f"{path}{info.alias}{index}.")


def main() -> None:
    """Write the schema beside this file."""
    SCHEMA_FILE.write_text(schema_text())
    sys.stdout.write(f"wrote {SCHEMA_FILE.name}\n")


if __name__ == "__main__":
    main()
