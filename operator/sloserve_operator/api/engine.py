"""What an engine says of itself at GET /slidingserve/v1/state: the operator's half of that contract.

Read by `engine_metrics`, judged by `status` and `nudge`. Unknown keys are ignored, missing ones have a
default, so that engines a version apart are still understood. Every value is bounded: what is taken here goes
into a status, which the API server would refuse whole for one number that its schema does not hold.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator

from .base import Model

MOST_CLASSES = 1024
"""A class that was renamed live stays in an engine's counts until its end."""
Count = Annotated[int, Field(ge=0, le=2**53, strict=True)]
"""As far as every reader of JSON counts without rounding."""
Generation = Annotated[int, Field(ge=0, le=2**53, strict=True)]
Share = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Word = Annotated[str, Field(max_length=253)]
Sentence = Annotated[str, Field(max_length=8192)]


class _Said(Model):
    """A part of what an engine says."""

    model_config = ConfigDict(allow_inf_nan=False)


class Label(_Said):
    """Live settings by name: the operator's own words come back."""

    revision: Word = ""
    generation: Generation = 0


class Rejected(Label):
    """Live settings that the engine refused, and why."""

    message: Sentence = ""


class Fallback(_Said):
    """Why the engine runs the stock scheduler."""

    reason: Sentence = ""


class ClassCount(_Said):
    """Requests of a class since the engine started."""

    requests: Count = 0
    good: Count = 0
    violations: dict[Word, Count] = Field(default_factory=dict, max_length=16)


class Quality(_Said):
    """How an engine's predictions of a batch's time fitted the batches it ran lately."""

    samples: Count = 0
    mae_share: Share = 0
    under_share: Share = 0


class PredictorState(_Said):
    """The latency predictor of one engine."""

    calibrated: bool = False
    overall: Quality | None = None


class EngineState(_Said):
    """State of one pod; `applied` is the lowest over its processes."""

    version: Word = ""
    applied: Label = Field(default_factory=Label)
    rejected: Rejected | None = None
    fallback: Fallback | None = None
    policy: Word | None = None
    alpha: Annotated[float, Field(ge=0, le=1e9)] | None = None
    compiling: Word = ""
    """The policy asked for, while its code is made and the one before it decides."""
    unknown_keys: list[Word] = Field(default_factory=list, max_length=1024)
    classes: dict[Word, ClassCount] = Field(default_factory=dict, max_length=MOST_CLASSES)
    predictor: PredictorState | None = None

    @field_validator("applied", mode="before")
    @classmethod
    def _nothing_applied_yet(cls, value: Any) -> Any:
        return {} if value is None else value
