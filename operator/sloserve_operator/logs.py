"""Logs: one structured line per change, with namespace, name and generation; everything else is debug.

Set up by `app`. kopf's own lines pass through `Calm`: what an API server that is away or says no brings about
is told without a traceback, and not by every watch at every try.
"""

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import structlog

QUIET_SECONDS = 60.0
FROM_OUTSIDE = ("kopf.", "aiohttp.", "kubernetes.")


class Calm(logging.Filter):
    """Takes tracebacks off errors that come from outside, and repetitions out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._told = clock, float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        if not record.name.startswith(("kopf", "asyncio")):
            return True
        if record.exc_info and record.exc_info[1] and _from_outside(record.exc_info[1]):
            if record.name == "asyncio":
                return False  # of a part of kopf that nobody asks any more; kopf has told what was wrong
            record.exc_info = record.exc_text = None
        if str(record.msg).startswith("Request attempt"):
            if self._clock() - self._told < QUIET_SECONDS:
                return False
            self._told = self._clock()
        return True


def _from_outside(error: BaseException) -> bool:
    """Whether an error is the connection's or the API server's, or was raised in a library of ours."""
    if isinstance(error, OSError) or type(error).__module__.startswith(FROM_OUTSIDE):
        return True
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(FROM_OUTSIDE)


def configure_logging(form: str, level: str) -> None:
    """Send structlog and the standard library (kopf) through one formatter to stderr."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if form == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(Calm())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # kopf tells of every event at info; its warnings and errors are what matters here.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
