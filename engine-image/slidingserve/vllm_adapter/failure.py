"""Why an engine ended: the first error of a core or a worker, kept for the last line of the launcher.

vLLM's front end only says that the core failed and to "see above", where pages of traceback stand; a pod's
status shows the end of the log alone. The plugin listens in each process for vLLM's own report of a fatal
error. A process that a signal ended says nothing: there its parent writes down which (`watch_core`,
`watch_workers`). The first note of an engine stays; `supervisor` makes it the last line.
"""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

from slidingserve.server.emulation import EmulationError
from slidingserve.server.launch import LaunchError
from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter import hub

LOGGERS = ("vllm.v1.engine.core", "vllm.v1.executor.multiproc_executor")
FATAL = ("failed to start", "fatal error")
WORKER_DIED = "Worker proc %s died unexpectedly"
LONGEST = 1000
TERMINATION_LOG = Path("/dev/termination-log")
"""Kubernetes shows what stands here as the reason of a container's end."""
MEMORY_EVENTS = Path("/sys/fs/cgroup/memory.events")
"""Of this container, in its own view of the control groups (version 2)."""
BY_THE_KERNEL = ", by the kernel, for lack of memory: raise the container's memory limit"
WATCH_SECONDS = 1.0
# What vLLM's launcher says of a process that ended, and of cores that ended before they were ready.
_API_SERVER = re.compile(r"Process (ApiServer_\d+) \(PID: (\d+)\) died with exit code (-?\d+)")
_CORES = re.compile(r"initialization failed.*\{.*?'([^']+)': (-\d+)", re.DOTALL)


class FirstFailure(logging.Handler):
    """Writes the exception of a fatal record to a file, unless a process of this engine was there before."""

    def __init__(self, file: Path) -> None:
        super().__init__(logging.ERROR)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record if it is a fatal one. Never raises."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and any(words in record.getMessage() for words in FATAL):
            _write(self._file, line(error))
        elif record.msg.startswith(WORKER_DIED) and isinstance(record.args, tuple) and len(record.args) == 2:
            name, code = record.args
            _write(self._file, f"the worker {name} {ended(code)}")


def ended(code: Any) -> str:
    """How a process ended, from the exit code that multiprocessing gives: below 0 it is a signal."""
    if not isinstance(code, int) or code >= 0:
        return f"ended by itself with exit code {code}"
    try:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"


def note(runtime: Runtime | None, text: str) -> None:
    """Write down why this engine ends, unless something else did before. Never raises."""
    if runtime is not None:
        _write(_file(runtime), " ".join(text.split())[:LONGEST])


def _write(file: Path, text: str) -> None:
    """The first failure alone: under its name there is a whole line or nothing."""
    try:
        with file.open("x") as new:
            new.write(text)
    except OSError:
        return  # told already, or there is no place to tell it


def watch_core(original: Callable[..., Any], self: Any) -> Any:
    """Around vLLM's wait for the end of its cores: note the first that ends while nobody stops them."""
    processes = {process.sentinel: process for process in self.processes}
    while processes and not self.manager_stopped.is_set():
        over = connection.wait(list(processes), timeout=WATCH_SECONDS)
        if over and not self.manager_stopped.is_set():
            process = processes[over[0]]
            process.join(WATCH_SECONDS)
            note(Runtime.from_env(), f"the engine core {_named(process)} {ended(process.exitcode)}")
        if over:
            break
    return original(self)


def watch_workers(original: Callable[..., Any], unready: Any) -> Any:
    """Around vLLM's wait for its workers' start: note the first that a signal ended meanwhile."""
    try:
        return original(unready)
    except Exception:
        processes = {handle.proc.sentinel: handle.proc for handle in unready}
        for sentinel in connection.wait(list(processes), timeout=WATCH_SECONDS):
            process = processes[sentinel]
            process.join(WATCH_SECONDS)
            if (process.exitcode or 0) < 0:
                text = f"the worker {_named(process)} {ended(process.exitcode)} while it started"
                note(Runtime.from_env(), text)
        raise


def serve_api(*args: Any, **kwargs: Any) -> None:
    """What vLLM runs in each of several API server processes, with an ear for the error that ends it."""
    from vllm.v1.utils import run_api_server_worker_proc

    try:
        run_api_server_worker_proc(*args, **kwargs)
    except Exception as error:
        note(Runtime.from_env(), line(error))
        raise


def _named(process: Any) -> str:
    return f"{process.name} (pid {process.pid})"


def oom_kills(events: Path = MEMORY_EVENTS) -> int:
    """How many processes of this container the kernel killed for lack of memory; 0 where it does not tell."""
    try:
        return sum(
            int(text.split()[1]) for text in events.read_text().splitlines() if text[:9] == "oom_kill "
        )
    except (OSError, ValueError, IndexError):
        return 0


def line(error: BaseException, model: str = "") -> str:
    """An error as one line: what it means, if that is known, else its own words."""
    try:
        meaning = hub.explain(error, model)
    except (AttributeError, RuntimeError):  # the response of another library than the hub's
        meaning = ""
    text = meaning or _of_vllm(str(error)) or f"{type(error).__name__}: {error}"
    if isinstance(error, (LaunchError, EmulationError)):
        text = str(error)  # a sentence of ours
    return " ".join(text.split())[:LONGEST]


def _of_vllm(text: str) -> str:
    """What vLLM's launcher says of a process that ended, with the signal's name; "" if it says another
    thing."""
    if found := _API_SERVER.search(text):
        name, pid, code = found.groups()
        return f"the API server {name} (pid {pid}) {ended(int(code))}"
    if found := _CORES.search(text):
        return f"the engine core {found[1]} {ended(int(found[2]))} while it started"
    return ""


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
