"""Policies in words: `--policy sarathi_edf:budget=128` names one and changes settings of it or of its
predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError, create_model

from slidingserve.config_options import options_model
from slidingserve.core.settings import PolicySettings
from slidingserve.sim.config import PredictorConfig, SimConfig, SimError

_PREDICTOR = tuple(field.name for field in fields(PredictorConfig) if field.name not in ("oracle", "model"))
SETTINGS = (*(field.name for field in fields(PolicySettings)), *_PREDICTOR)
_MORE: dict[str, Any] = {
    "alpha": (FiniteFloat, Field(PolicySettings.alpha, gt=0)),
    "min_chunk": (int, Field(PolicySettings.min_chunk, ge=1, le=1 << 20)),
    "max_chunk": (int | None, Field(PolicySettings.max_chunk, ge=1, le=1 << 20)),
    "overload": (get_type_hints(PolicySettings)["overload"], PolicySettings.overload),
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def engine_of(text: str, base: SimConfig) -> SimConfig:
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
        return f"--policy {text!r}: {place!r} is no setting; choose from {', '.join(sorted(SETTINGS))}"
    if first["type"] == "value_error":
        return f"--policy {text!r}: {first['ctx']['error']}"
    return f"--policy {text!r}: {place} {first.get('input')!r}: {first['msg'].lower()}"


def engines_of(texts: Sequence[str], base: SimConfig) -> dict[str, SimConfig]:
    """The engines of repeated --policy options, by their texts."""
    return {text: engine_of(text, base) for text in texts}
