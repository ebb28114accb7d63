"""The live configuration of one process: watched, validated, swapped as a whole, the last good one kept.

Each API server and each engine core runs one in a daemon thread of its own, so a change is in force on an
idle engine too. A mounted ConfigMap changes by a swap of its `..data` link, which a watcher sees as a
deletion: any event means "read again", never "it is gone". A slow poll stands behind the events.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from watchfiles import watch

from slidingserve.config import ConfigError, EngineConfig, builtin, loads
from slidingserve.server.metrics import series

FILE = "slidingserve.json"
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
        self._seen: bytes | None = None
        self._stop = threading.Event()
        self.view = View(builtin())
        if self._file is not None:
            self.read(first=True)

    def read(self, *, first: bool = False) -> bool:
        """Read the file and swap the view if its content is new. True if it was.

        A file that cannot be taken leaves the last good configuration in force. At the start there is none:
        then the classes of a readable file hold all the same, with the scheduler's built-in settings, so
        that requests find their class while the state says what was refused.
        """
        if self._file is None:
            return False
        try:
            content = self._file.read_bytes()
        except OSError:
            return False  # between two links, or on its way: the next event or poll reads it
        if content == self._seen:
            return False
        self._seen = content
        try:
            config = loads(content)
            try:
                config.check_engine(self._max_batch_tokens)
            except ConfigError:
                if first:
                    self.view = View(_safe_part(config))
                raise
            self.view = View(config, None, tuple(config.unknown_keys()))
            self._count("applied")
        except ConfigError as error:
            self.view = replace(self.view, rejected=Rejected(*_labels(content), str(error)))
            self._count("rejected")
            logger.warning("slidingserve: configuration refused, the last good one stays in force: %s", error)
        return True

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


def _safe_part(config: EngineConfig) -> EngineConfig:
    """The promises of a configuration with built-in scheduler settings, labelled as nothing that was asked
    for."""
    return config.model_copy(update={"scheduler": builtin().scheduler, "revision": "", "generation": 0})


def _labels(content: bytes) -> tuple[str, int]:
    """Revision and generation of a file that could not be taken, as far as they can be read."""
    try:
        document = json.loads(content)
        generation = document.get("generation", 0)
        return str(document.get("revision", "")), generation if isinstance(generation, int) else 0
    except (ValueError, AttributeError):
        return "", 0
