"""One question to the model hub before vLLM starts: is it there, and if not, is the model in the cache?

Place in the flow: `entry.serve` calls `prepare` before it imports vLLM. vLLM and transformers ask the hub
dozens of times at a start, each with retries of its own, also for a model that lies in the cache whole. Here
one answer decides: a hub that is busy or away ends the start at once with a line, and is not asked again
before the time it named; or the engine starts from the cache, offline.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from slidingserve.server import logs
from slidingserve.vllm_adapter import hub

PAUSES = (1.0, 3.0)
"""Between tries of a hub that fails (5xx) or cannot be reached; one that asks to be left alone is."""
ASK_SECONDS = 10.0
LONGEST_WAIT = 600.0
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class HubError(Exception):
    """The model cannot be had now; the message is one line for the user."""


class Wanted(NamedTuple):
    """A model on a hub, as vLLM's arguments ask for it."""

    repository: str
    revision: str | None
    weights_dir: str | None
    """`--download-dir`, where weights lie apart from the hub's cache."""
    named: bool
    """Whether the arguments say what clients call it."""


def wanted(argv: Sequence[str]) -> Wanted | None:
    """From vLLM's argument vector (`vllm serve MODEL ...`); None where no hub of this kind is asked."""
    values = {}
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        following = argv[at + 1] if at + 1 < len(argv) else ""
        values[name.replace("_", "-")] = value if equals else following
    model = argv[2] if len(argv) > 2 and not argv[2].startswith("-") else values.get("--model", "")
    other_hub = os.environ.get("VLLM_USE_MODELSCOPE", "").lower() in ("1", "true")
    if other_hub or not _REPOSITORY.fullmatch(model) or Path(model).exists():
        return None
    named = "--served-model-name" in values
    return Wanted(model, values.get("--revision"), values.get("--download-dir"), named)


def prepare(
    argv: list[str], *, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.time
) -> None:
    """Ask the hub for the model in `argv`; add to `argv` what an offline start needs.

    Raises HubError where neither the hub nor the cache has it. A refusal (401, 403, 404) is left to vLLM,
    which may need something else of it.
    """
    model = wanted(argv)
    if model is None or hub.offline():
        return
    from huggingface_hub import constants

    mark = Path(constants.HF_HOME) / "slidingserve-hub-busy.json"
    snapshot = cached(model, Path(constants.HF_HUB_CACHE))
    line = _left_alone(mark, now())
    if line and snapshot is None:
        _wait_out(mark, line, sleep, now)
        line = ""
    line = line or _ask(model, mark, sleep, now, pauses=PAUSES if snapshot is None else ())
    if not line:
        mark.unlink(missing_ok=True)
    elif snapshot is not None:
        told = line.partition("; ")[0]
        logs.say(f"{told}; starting from the cache, snapshot {snapshot.name[:12]}", "WARNING")
        os.environ[hub.OFFLINE] = "1"
        constants.HF_HUB_OFFLINE = True
        if not model.named:
            argv += ["--served-model-name", model.repository]  # else vLLM serves under the path
    else:
        raise HubError(line)


def _ask(
    model: Wanted,
    mark: Path,
    sleep: Callable[[float], None],
    now: Callable[[], float],
    *,
    pauses: Sequence[float],
) -> str:
    """Why the hub cannot serve, or "" if it answers otherwise. `pauses`: seconds before further tries."""
    from huggingface_hub import HfApi

    line = ""
    for pause in (0.0, *pauses):
        sleep(pause)
        try:
            HfApi().model_info(model.repository, revision=model.revision, timeout=ASK_SECONDS)
        except Exception as error:
            line = hub.explain(error, model.repository)
            if not line.startswith((hub.BUSY, hub.AWAY)):
                return ""
            if seconds := hub.refusal_to_wait_for(error):
                _leave_alone(mark, now() + seconds, line)
                return line
        else:
            return ""
    return line


def _leave_alone(mark: Path, until: float, line: str) -> None:
    """Remember across starts of this container, as far as the cache lives on."""
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(json.dumps({"until": until, "line": line}))
    except OSError:
        return  # then the kubelet's back-off alone keeps us from asking


def _left_alone(mark: Path, now: float) -> str:
    """What the hub said when it asked to be left alone until a time that is still to come, or ""."""
    try:
        document = json.loads(mark.read_text())
        # A clock that was set back must not hold an engine for ever.
        return str(document["line"]) if 0 < float(document["until"]) - now < 2 * LONGEST_WAIT else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _wait_out(mark: Path, line: str, sleep: Callable[[float], None], now: Callable[[], float]) -> None:
    left = min(float(json.loads(mark.read_text())["until"]) - now(), LONGEST_WAIT)
    logs.say(f"{line.partition('; ')[0]}; it is left alone for another {left:.0f} s", "WARNING")
    sleep(max(left, 0.0))


def cached(model: Wanted, cache: Path) -> Path | None:
    """The model's snapshot in the hub's cache, if it is there whole: configuration and all weights."""
    snapshot = _snapshot(model, cache)
    if snapshot is None or not any((snapshot / name).exists() for name in ("config.json", "params.json")):
        return None
    weights = _snapshot(model, Path(model.weights_dir)) if model.weights_dir else snapshot
    return snapshot if weights is not None and _whole(weights) else None


def _snapshot(model: Wanted, cache: Path) -> Path | None:
    home = cache / f"models--{model.repository.replace('/', '--')}"
    commit = model.revision or "main"
    if not _COMMIT.fullmatch(commit):
        try:
            commit = (home / "refs" / commit).read_text().strip()
        except OSError:
            return None
    snapshot = home / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def _whole(weights: Path) -> bool:
    """Whether all files are there that an index names, or any weights where there is none. A file that is
    still on its way has no name in a snapshot."""
    for index in weights.glob("*.index.json"):
        try:
            names = set(json.loads(index.read_text())["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError):
            return False
        return all((weights / name).exists() for name in names)
    return any(path.exists() for pattern in WEIGHTS for path in weights.glob(pattern))
