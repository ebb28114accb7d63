"""Why an engine ended: the first error of a core or a worker, kept for the last line of the launcher.

vLLM's front end only says that the core failed and to "see above", where pages of traceback stand; a pod's
status shows the end of the log alone. The plugin listens in each process for vLLM's own report of a fatal
error.
"""

from __future__ import annotations

import logging
from pathlib import Path

from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter import hub

LOGGERS = ("vllm.v1.engine.core", "vllm.v1.executor.multiproc_executor")
FATAL = ("failed to start", "fatal error")
LONGEST = 1000
TERMINATION_LOG = Path("/dev/termination-log")
"""Kubernetes shows what stands here as the reason of a container's end."""


class FirstFailure(logging.Handler):
    """Writes the exception of a fatal record to a file, unless a process of this engine was there before."""

    def __init__(self, file: Path) -> None:
        super().__init__(logging.ERROR)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record if it is a fatal one. Never raises."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or not any(words in record.getMessage() for words in FATAL):
            return
        try:
            with self._file.open("x") as file:
                file.write(line(error))
        except OSError:
            return  # told already, or there is no place to tell it


def line(error: BaseException, model: str = "") -> str:
    """An error as one line: what it means, if that is known, else its own words."""
    try:
        meaning = hub.explain(error, model)
    except (AttributeError, RuntimeError):  # the response of another library than the hub's
        meaning = ""
    text = meaning or f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:LONGEST]


def listen(runtime: Runtime) -> None:
    """Begin to listen in this process."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, FirstFailure) for handler in logger.handlers):
            logger.addHandler(FirstFailure(_file(runtime)))


def first(runtime: Runtime) -> str:
    """The first failure of any process of this engine, or ""."""
    try:
        return _file(runtime).read_text()
    except OSError:
        return ""


def tell_kubernetes(text: str) -> None:
    """Leave `text` as the reason of this container's end, where there is a place for it."""
    try:
        if TERMINATION_LOG.is_file():
            TERMINATION_LOG.write_text(text)
    except OSError:
        return


def _file(runtime: Runtime) -> Path:
    return runtime.process_dir / "failure"
