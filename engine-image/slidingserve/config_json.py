"""What every reader of slidingserve.json must agree on before its fields are looked at: that it is JSON.

Parsers differ on what the standard leaves open or forbids: a key that is there twice, NaN, half a surrogate
pair, other encodings. Here all of that is refused, so that no two readers take one file for two settings.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from slidingserve.config_errors import cut

FILE = "slidingserve.json"
MAX_BYTES = 1 << 20
"""What a ConfigMap can hold."""


class ConfigError(ValueError):
    """A configuration that cannot be taken; its text is one sentence that names field, value and remedy."""


def check_text(text: str | bytes) -> None:
    """Raises ConfigError if this is no JSON object, or not the same one for every reader."""
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{FILE}: it is longer than {MAX_BYTES} bytes; write at most that")
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
    except UnicodeDecodeError as error:
        told = f"{FILE}: it is not JSON (byte {error.start} is not UTF-8); write it in UTF-8"
        raise ConfigError(told) from None
    if decoded.startswith("\ufeff"):
        raise ConfigError(
            f"{FILE}: it is not JSON (it begins with a byte-order mark); write UTF-8 without one"
        )
    try:
        # Stricter than Python's: no half of a surrogate pair, no depth that would need recursion.
        from_json(decoded)
        # More digits than Python makes a number of are the fields' to refuse, by name.
        json.loads(decoded, object_pairs_hook=_once, parse_int=str, parse_float=str)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{FILE}: it is not JSON ({cut(str(error), 200)}); write one JSON object") from None


def check_finite(text: str | bytes) -> None:
    """Refuse NaN and Infinity where no field refused them by name: in a key that this version does not know.
    Raises ConfigError."""
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ConfigError(f"{FILE}: it is not JSON ({cut(str(error), 200)}); give finite numbers") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{FILE}: key {cut(json.dumps(twice))} is there twice in one object; leave one")
    return found
