"""Worker processes of a search."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path


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
