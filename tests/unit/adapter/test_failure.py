"""The first fatal error of any process is what the launcher ends with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
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
