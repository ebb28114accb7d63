"""Processes that a later command finds again, and never takes for another one with the same number."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cache import ClusterError


@dataclass(frozen=True)
class Process:
    """A process as it can be found again: number, start time in clock ticks, and the boot it belongs to."""

    pid: int
    start: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> "Process":
        """The process that runs as `pid` now; ClusterError if there is none."""
        stat = _stat(pid)
        if stat is None:
            raise ClusterError(f"process {pid} ended as soon as it was started")
        return cls(pid, int(stat[19]), _boot())

    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        stat = _stat(self.pid)
        return stat is not None and stat[0] != "Z" and int(stat[19]) == self.start and self.boot == _boot()

    def kill(self, seconds: float = 15) -> None:
        """SIGKILL, and wait until it is gone (of a pid namespace's first process: and all others in it)."""
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                raise ClusterError(f"process {self.pid} is still there {seconds:.0f} s after SIGKILL")
            time.sleep(0.02)


def child(parent: subprocess.Popen[bytes]) -> int:
    """The process that `nsenter` forks into the node: killing nsenter itself would leave it running."""
    while parent.poll() is None:
        for process in Path("/proc").glob("[0-9]*"):
            stat = _stat(int(process.name))
            if stat is not None and int(stat[1]) == parent.pid:
                return int(process.name)
    raise ClusterError(f"{parent.args!r} ended with {parent.returncode} as soon as it was started")


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on, or None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
