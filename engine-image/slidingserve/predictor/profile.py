"""A calibrated model on disk, so that a restart of the same engine need not calibrate again.

One small JSON file with one writer, renamed into place. Whatever is wrong with it is a reason in words, and
the engine calibrates anew; nothing here raises into the engine.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from slidingserve.predictor.model import LatencyModel

_FORMAT = 1
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class ProfileKey:
    """All that a model of batch times depends on; a stored one is used only if every field is the same."""

    vllm_version: str
    model: str
    revision: str
    dtype: str
    tensor_parallel: int
    pipeline_parallel: int
    device: str
    """The name of the accelerator, for example "NVIDIA H200", or the CPU's."""
    max_batched_tokens: int
    async_scheduling: bool


class Loaded(NamedTuple):
    """A model, or why there is none."""

    model: LatencyModel | None
    samples: int
    """Batches that the model was fitted to."""
    reason: str
    """Empty with a model; else a sentence for the log."""


def load_profile(path: Path, key: ProfileKey, *, signed: bool = False) -> Loaded:
    """Read the profile at `path` if it is one of `key`. Never raises.

    Only `signed` takes weights below zero: the paper's plain least squares makes such, the robust fit never.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            return _none(path, f"is larger than {_LARGEST_FILE} bytes, so no profile")
        document = json.loads(path.read_bytes())
        if document["format"] != _FORMAT:
            return _none(path, f"has format {document['format']!r}, this version reads {_FORMAT}")
        difference = _difference(document["key"], key)
        if difference:
            return _none(path, difference)
        model = LatencyModel.from_json(document["model"])
        if not (signed or model.monotone):
            return _none(path, "has a weight below zero, so another fit made it")
        return Loaded(model, int(document["samples"]), "")
    except FileNotFoundError:
        return _none(path, "is not there")
    except OSError as error:
        return _none(path, f"cannot be read ({error.strerror})")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        return _none(path, f"is damaged ({type(error).__name__}: {error})")


def save_profile(path: Path, key: ProfileKey, model: LatencyModel, samples: int) -> str:
    """Write the profile, whole or not at all. Returns "", or why it could not be written. Never raises."""
    document = {"format": _FORMAT, "key": asdict(key), "samples": samples, "model": model.to_json()}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        return f"profile {path}: cannot be written ({error.strerror}); the next start will calibrate again"
    return ""


def _difference(stored: dict[str, Any], key: ProfileKey) -> str:
    for field in fields(key):
        here, there = getattr(key, field.name), stored.get(field.name)
        if here != there:
            return f"was made for {field.name} {there!r}, this engine has {here!r}"
    return ""


def _none(path: Path, why: str) -> Loaded:
    return Loaded(None, 0, f"profile {path}: {why}; calibrating anew")
