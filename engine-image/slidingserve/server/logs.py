"""What the engine's processes print: our own last words, quiet probes, and JSON on demand.

Place in the flow: the launcher writes a logging configuration for `--log-json` and names it to vLLM
(`VLLM_LOGGING_CONFIG_PATH`), which loads it in each of its processes and hands it to uvicorn too; each API
server hangs `QuietProbes` on the access log. Messages of ours are records of the logger `vllm.slidingserve`,
so they look like vLLM's; what is said outside vLLM is one line on standard error by `say`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOG = "SLIDINGSERVE_LOG"
"""`json`, or unset for text."""
CONFIG_PATH = "VLLM_LOGGING_CONFIG_PATH"
POLLED = frozenset(
    {"/health", "/ping", "/metrics", "/load", "/version"}
    | {"/slidingserve/v1/ready", "/slidingserve/v1/state", "/v1/models"}
)
"""What probes, Prometheus and the operator ask again and again."""
_ACCESS = "uvicorn.access"


def as_json(env: Mapping[str, str] = os.environ) -> bool:
    """Whether this engine logs JSON."""
    return env.get(LOG, "").lower() == "json"


def say(text: str, level: str = "ERROR", *, json_line: bool | None = None) -> None:
    """One line of ours on standard error, from outside vLLM's logging; in JSON if this engine logs that."""
    line = f"slidingserve: {text}"
    if as_json() if json_line is None else json_line:
        line = json.dumps(_fields(level, "slidingserve", text), ensure_ascii=False)
    print(line, file=sys.stderr, flush=True)  # noqa: T201


class QuietProbes(logging.Filter):
    """Leaves out the access lines of probes and polls that went well; those that failed stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        """uvicorn's arguments are client, method, path with query, HTTP version, status."""
        if record.name != _ACCESS or not isinstance(record.args, tuple) or len(record.args) != 5:
            return True
        path, status = str(record.args[2]).partition("?")[0], record.args[4]
        return path not in POLLED or not (isinstance(status, int) and status < 300)


def hush() -> None:
    """Begin to leave out the lines of probes in this process. May be called more than once."""
    access = logging.getLogger(_ACCESS)
    if not any(isinstance(one, QuietProbes) for one in access.filters):
        access.addFilter(QuietProbes())


class JsonFormatter(logging.Formatter):
    """A record as one JSON object on one line: time (RFC 3339, UTC), level, logger, process, pid, message,
    and what the record is about."""

    def format(self, record: logging.LogRecord) -> str:
        """Never raises for what a record holds."""
        fields = _fields(record.levelname, record.name, record.getMessage(), record.created)
        fields["process"] = getattr(record, "vllm_process_name", record.processName)
        if record.name == _ACCESS and isinstance(record.args, tuple) and len(record.args) == 5:
            client, method, path, version, status = record.args
            fields |= {"client": client, "method": method, "path": path, "http": version, "status": status}
        else:
            fields["at"] = f"{record.filename}:{record.lineno}"
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def _fields(level: str, logger: str, message: str, created: float | None = None) -> dict[str, Any]:
    when = datetime.now(UTC) if created is None else datetime.fromtimestamp(created, UTC)
    stamp = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = message.removeprefix("slidingserve: ")
    return {"time": stamp, "level": level, "logger": logger, "pid": os.getpid(), "message": message}


def configuration(env: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """For `logging.config.dictConfig`: vLLM, uvicorn and every other logger in JSON, to where vLLM logs."""
    level = env.get("VLLM_LOGGING_LEVEL", "INFO").upper()
    here = {"handlers": ["json"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": f"{__name__}.JsonFormatter"}},
        "filters": {"probes": {"()": f"{__name__}.QuietProbes"}},
        "handlers": {
            "json": {
                "class": "logging.StreamHandler",
                "formatter": "json",
                "filters": ["probes"],
                "stream": env.get("VLLM_LOGGING_STREAM", "ext://sys.stdout"),
            }
        },
        "root": {"handlers": ["json"], "level": "WARNING"},
        "loggers": {
            "vllm": {**here, "level": level},
            **{name: {**here, "level": "INFO"} for name in ("uvicorn", "uvicorn.error", _ACCESS)},
        },
    }


def write_configuration(directory: Path) -> dict[str, str]:
    """Write that into `directory` (a state directory), and give the environment that makes vLLM use it.
    Raises OSError."""
    path = directory / "logging.json"
    path.write_text(json.dumps(configuration(), indent=2) + "\n")
    return {LOG: "json", CONFIG_PATH: str(path)}
