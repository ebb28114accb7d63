"""Worker processes of a search."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from slidingserve.sim.output import said_in_one_line
from slidingserve.sim.pool import processes
from slidingserve.sim.store import Store


def workers_of(process: int) -> list[int]:
    """Child processes that simulate: not the tracker of shared resources."""
    found = []
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"spawn_main" in command:
            found.append(int(child))
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_end_with_a_search_that_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slidingserve.cli", "goodput", "--policy", "fcfs", "--requests", "4000"]
    command += ["--seeds", "4", "--workers", "2", "--cache", str(tmp_path)]
    search = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 300
    try:
        while len(workers := workers_of(search.pid)) < 2:
            assert search.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        search.kill()
        search.wait()
    end = time.monotonic() + 60
    while left := [worker for worker in workers if alive(worker)]:
        if time.monotonic() > end:
            for worker in left:
                os.kill(worker, 9)
            raise AssertionError(f"workers {left} outlived their search")
        time.sleep(0.05)


def test_an_interrupt_does_not_wait_for_the_runs_that_it_loses() -> None:
    def interrupted() -> None:
        with processes(2) as pool:
            for _ in range(3):
                pool.submit(time.sleep, 10_000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_a_worker_that_is_killed_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed() -> None:
        with said_in_one_line("goodput", Store(tmp_path)), processes(1) as pool:
            pool.submit(signal.raise_signal, signal.SIGKILL).result()

    with pytest.raises(typer.Exit) as ended:
        killed()
    assert ended.value.exit_code == 2
    said = capsys.readouterr().err
    assert "was killed, as the system does when the memory runs out" in said
    assert f"finished runs are in {tmp_path}; the same command goes on" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_search_that_is_told_to_end_says_how_to_go_on(
    sent: signal.Signals, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(typer.Exit) as ended, said_in_one_line("goodput", Store(tmp_path)):
        signal.raise_signal(sent)
    assert ended.value.exit_code == status
    assert f"interrupted; finished runs are in {tmp_path}" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before
