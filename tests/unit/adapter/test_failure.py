"""The first fatal error of any process is what the launcher ends with."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from slidingserve.server.emulation import EmulationError
from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter import failure


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    made = Runtime(tmp_path)
    made.process_dir.mkdir()
    failure.listen(made)
    failure.listen(made)  # vLLM may load plugins twice in a process
    yield made
    for name in failure.LOGGERS:
        logging.getLogger(name).handlers.clear()


def report(words: str, error: Exception, name: str = failure.LOGGERS[0]) -> None:
    try:
        raise error
    except Exception:
        logging.getLogger(name).exception(words)


def test_the_cause_in_a_worker_is_told_and_not_the_cores_later_complaint(runtime: Runtime) -> None:
    report("WorkerProc failed to start.", OSError("Insufficient space\n in /dev/shm"), failure.LOGGERS[1])
    report("EngineCore failed to start.", RuntimeError("see above"))
    assert failure.first(runtime) == "OSError: Insufficient space in /dev/shm"


def test_an_error_that_ends_nothing_is_not_kept(runtime: Runtime) -> None:
    report("Invocation of reset failed", ValueError("no"))
    assert failure.first(runtime) == ""


def test_kubernetes_gets_the_reason_where_there_is_a_place_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "termination-log"
    monkeypatch.setattr(failure, "TERMINATION_LOG", place)
    failure.tell_kubernetes("no place, no error")
    assert not place.exists()
    place.touch()
    failure.tell_kubernetes("the reason")
    assert place.read_text() == "the reason"


def test_a_worker_that_a_signal_ended_is_named_and_not_the_cores_later_complaint(runtime: Runtime) -> None:
    """The words are vLLM's own, in the core that watches its workers."""
    text = "Worker proc %s died unexpectedly (exit code: %s), shutting down executor."
    logging.getLogger(failure.LOGGERS[1]).error(text, "VllmWorker-1", -int(signal.SIGILL))
    report("EngineCore encountered a fatal error.", RuntimeError("Executor failed."))
    assert failure.first(runtime) == "the worker VllmWorker-1 was ended by signal 4 (SIGILL)"


@pytest.fixture
def ours(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    for name, value in runtime.to_env().items():
        monkeypatch.setenv(name, value)
    return runtime


@pytest.fixture
def process() -> Iterator[Any]:
    """A child that sleeps."""
    made = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,), name="EngineCore")
    made.start()
    yield made
    made.kill()
    made.join()


def test_a_core_that_a_signal_ends_while_nobody_stops_it_is_noted(ours: Runtime, process: Any) -> None:
    stopped = threading.Event()
    manager = SimpleNamespace(processes=[process], manager_stopped=stopped)
    os.kill(process.pid, signal.SIGBUS)
    failure.watch_core(lambda manager: stopped.set(), manager)
    assert (
        failure.first(ours)
        == f"the engine core EngineCore (pid {process.pid}) was ended by signal 7 (SIGBUS)"
    )
    assert stopped.is_set(), "vLLM goes on"


def test_a_core_that_is_stopped_is_no_failure(ours: Runtime, process: Any) -> None:
    manager = SimpleNamespace(processes=[process], manager_stopped=threading.Event())
    manager.manager_stopped.set()
    process.terminate()
    process.join()
    failure.watch_core(lambda manager: None, manager)
    assert failure.first(ours) == ""


def test_a_worker_that_a_signal_ends_while_it_starts_is_noted(ours: Runtime, process: Any) -> None:
    def waits(unready: Any) -> None:
        process.join()
        raise RuntimeError("WorkerProc initialization failed")

    os.kill(process.pid, signal.SIGILL)
    with pytest.raises(RuntimeError, match="initialization failed"):
        failure.watch_workers(waits, [SimpleNamespace(proc=process)])
    assert failure.first(ours).endswith("was ended by signal 4 (SIGILL) while it started")


@pytest.mark.parametrize(
    ("vllm", "told"),
    [
        (
            "Process ApiServer_1 (PID: 7) died with exit code -11",
            "the API server ApiServer_1 (pid 7) was ended by signal 11 (SIGSEGV)",
        ),
        (
            "Engine core initialization failed. See root cause. Failed core proc(s): {'EngineCore_0': -9}",
            "the engine core EngineCore_0 was ended by signal 9 (SIGKILL) while it started",
        ),
    ],
)
def test_exit_codes_in_vllms_words_become_the_names_of_signals(vllm: str, told: str) -> None:
    assert failure.line(RuntimeError(vllm)) == told


def test_a_sentence_of_ours_stays_as_it_is() -> None:
    assert failure.line(EmulationError("--emulate-log x: no room")) == "--emulate-log x: no room"
