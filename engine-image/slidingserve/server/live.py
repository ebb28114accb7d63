"""The live configuration of one process: watched, validated, swapped as a whole, the last good one kept.

Each API server and each engine core runs one in a daemon thread of its own, so a change is in force on an
idle engine too. A mounted ConfigMap changes by a swap of its `..data` link, which a watcher sees as a
deletion: any event means "read again", never "it is gone". A slow poll stands behind the events.

At the start there is no last good one. The launcher refuses a file without a promise in it (`read_promises`);
one whose scheduler settings alone cannot be taken starts with the built-in ones.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from watchfiles import watch

from slidingserve.config import MAX_GENERATION, ConfigError, EngineConfig, builtin, loads
from slidingserve.config_json import FILE, MAX_BYTES, check_text
from slidingserve.server.metrics import series

REVISION = re.compile(r"[0-9A-Za-z._-]{0,64}", re.ASCII)
PROMISES = ("schemaVersion", "classes", "defaultClass")
"""What of it a request is promised; the rest is how the scheduler keeps that."""
POLL_SECONDS = 2.0

logger = logging.getLogger("vllm.slidingserve")


@dataclass(frozen=True)
class Rejected:
    """A configuration that was read and not taken."""

    revision: str
    generation: int
    message: str

    def to_json(self) -> dict[str, Any]:
        """As the state endpoint shows it."""
        return {"revision": self.revision, "generation": self.generation, "message": self.message}


@dataclass(frozen=True)
class View:
    """What is in force, and the newer one that was refused, if there is one."""

    config: EngineConfig
    rejected: Rejected | None = None
    unknown_keys: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """As a process reports it in its state file."""
        return {
            "revision": self.config.revision,
            "generation": self.config.generation,
            "policy": self.config.scheduler.policy,
            "alpha": self.config.alpha,
            "unknownKeys": list(self.unknown_keys),
            "rejected": self.rejected.to_json() if self.rejected else None,
        }


class LiveConfig:
    """Holds the `View` of one process. Readers take `view` once and use that object: it never changes."""

    def __init__(
        self,
        directory: Path | None,
        max_batch_tokens: int,
        *,
        role: str,
        on_change: Callable[[View], None] = lambda view: None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Read the configuration once, here. Without a directory the built-in defaults hold for good.

        `on_change` is called in the watching thread after each file that was taken or refused.
        """
        self._file = directory / FILE if directory is not None else None
        self._max_batch_tokens = max_batch_tokens
        self._role = role
        self._on_change = on_change
        self._poll_seconds = poll_seconds
        self._seen: bytes | str | None = None
        self._stop = threading.Event()
        self.view = View(builtin() if directory is None else _unlabelled(builtin()))
        self.read(first=True)

    def read(self, *, first: bool = False) -> bool:
        """Read the file and swap the view if its content is new. True if it was.

        A file that cannot be taken leaves what is in force there. `first`: nothing is, so its promises hold
        all the same where they can be read: requests find their class while the state says what was refused.
        """
        content = self._content()
        if content is None or content == self._seen:
            return False
        self._seen = content
        try:
            config = _taken(content, self._max_batch_tokens)
            self.view = View(config, None, tuple(config.unknown_keys()))
        except ConfigError as error:
            if first:
                with contextlib.suppress(ConfigError):
                    self.view = View(read_promises(content))
            self._refuse(Rejected(*_labels(content), str(error)))
        else:
            self._count("applied")
        return True

    def _refuse(self, rejected: Rejected) -> None:
        """Say in the view, the metrics and the log that a configuration is not in force, and why."""
        self.view = replace(self.view, rejected=rejected)
        self._count("rejected")
        kept = "what was in force stays" if self.view.config.revision else "built-in settings are in force"
        logger.error("slidingserve: configuration refused, %s: %s", kept, rejected.message)

    def _content(self) -> bytes | str | None:
        """Of the file; in words why it cannot be read; None between two links, or without a directory."""
        try:
            return read_file(self._file) if self._file is not None else None
        except FileNotFoundError:
            return None
        except OSError as error:
            return unreadable(error)

    def start(self) -> None:
        """Begin to watch, in a daemon thread."""
        if self._file is not None:
            watched = (self._file.parent,)
            threading.Thread(
                target=self._watch, args=watched, name="slidingserve-config", daemon=True
            ).start()

    def stop(self) -> None:
        """End the watching thread soon."""
        self._stop.set()

    def _watch(self, directory: Path) -> None:
        while not self._stop.is_set():
            try:
                for _ in watch(
                    directory,
                    stop_event=self._stop,
                    debounce=50,
                    step=20,
                    rust_timeout=int(self._poll_seconds * 1000),
                    yield_on_timeout=True,
                    recursive=False,
                    raise_interrupt=False,
                ):
                    if self.read():
                        self._on_change(self.view)
            except Exception:
                # The directory may vanish for a moment; whatever it is, the thread must outlive it.
                logger.exception("slidingserve: watching %s failed, trying again", directory)
                self._stop.wait(self._poll_seconds)

    def _count(self, result: str) -> None:
        series("config_reloads", self._role, result).inc()
        series("config_generation", self._role).set(self.view.config.generation)


def read_promises(content: bytes | str) -> EngineConfig:
    """The promises alone of a file that cannot be taken as it is, with built-in scheduler settings. Raises
    ConfigError where there are none."""
    if isinstance(content, str):
        raise ConfigError(content)
    check_text(content)
    document = json.loads(content, parse_int=_whole)
    if not isinstance(document, dict):
        raise ConfigError(f"{FILE}: it is not a JSON object; write one")
    return _unlabelled(loads(json.dumps({key: document[key] for key in PROMISES if key in document})))


def read_file(path: Path) -> bytes:
    """The content, one byte more than may be taken at most. Raises OSError, also for what is no file: a pipe
    would be waited for, and some devices never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        return file.read(MAX_BYTES + 1)


def unreadable(error: OSError) -> str:
    """Why the file cannot be read, and what to do."""
    return f"{FILE}: it cannot be read ({error.strerror}); give a file that this user may read"


def _taken(content: bytes | str, max_batch_tokens: int) -> EngineConfig:
    """The file as it is. Raises ConfigError if this engine cannot take it."""
    if isinstance(content, str):
        raise ConfigError(content)
    config = loads(content)
    config.check_engine(max_batch_tokens)
    return config


def _unlabelled(config: EngineConfig) -> EngineConfig:
    """Nothing that was asked for."""
    return config.model_copy(update={"revision": "", "generation": 0})


def _labels(content: bytes | str) -> tuple[str, int]:
    """Revision and generation of a file that could not be taken, where each is one that could be."""
    try:
        document = json.loads(content, parse_int=_whole)
        labels = {key: document[key] for key in ("revision", "generation") if key in document}
    except (ValueError, TypeError, RecursionError):
        return "", 0
    revision, generation = labels.get("revision"), labels.get("generation")
    return (
        revision if isinstance(revision, str) and REVISION.fullmatch(revision) else "",
        generation if type(generation) is int and 0 <= generation <= MAX_GENERATION else 0,
    )


def _whole(digits: str) -> int:
    """A whole number, or -1 for one of more digits than anybody takes: Python refuses 5,000 of them."""
    return int(digits) if len(digits) <= 30 else -1
