"""The GPU of an emulated engine: one batch after another, each as long as the hardware profile says.

Used by `timed_executor`; knows nothing of vLLM. A batch begins when it is handed over or when the one before
it ends, whichever is later, and its end is known at once: nothing runs, whoever wants the result waits for
the end. So the device keeps its times however late this machine wakes a waiting thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slidingserve.hardware import Hardware
from slidingserve.hardware.timing import batch_seconds
from slidingserve.server.emulation import EmulationError

SPIN_SECONDS = 0.00015
"""`time.sleep` wakes some 0.1 ms late on Linux; the last bit is waited for awake."""
KEPT_BATCHES = 100_000
FLUSH_SECONDS = 1.0
COLUMNS = "start,end,woke,prefill_tokens,prefills,decodes,cached_tokens"

FIRST_TOKEN = 33
TOKENS = 61
"""Ids 33 to 93 are single printable characters by byte value and in GPT-2's order (Llama 3, Qwen) too."""
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Batch(NamedTuple):
    """A batch on the device; times in monotonic seconds."""

    start: float
    end: float
    prefill_tokens: int
    prefills: int
    decodes: int
    cached_tokens: int
    """Sum over all requests, before the batch."""


class Rows:
    """The log: a CSV file, one row a batch. What cannot be written is an EmulationError that names the file:
    a log with holes would be no record of what ran."""

    def __init__(self, path: Path) -> None:
        """Begins the file anew; a full disk shows here already."""
        self._path = path
        self._flushed = 0.0
        with self._told():
            self._file = path.open("w")
            self._file.write(COLUMNS + "\n")
            self._file.flush()

    def add(self, batch: Batch, woke: float) -> None:
        """The row of a batch; on disk within a second or with the next one."""
        row = (batch.start, batch.end, woke)
        with self._told():
            self._file.write(",".join([*(f"{seconds:.6f}" for seconds in row), *map(str, batch[2:])]) + "\n")
            if woke - self._flushed > FLUSH_SECONDS:
                self._file.flush()
                self._flushed = woke

    def close(self) -> None:
        """Write out the rest."""
        with self._told():
            self._file.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            with contextlib.suppress(OSError, AttributeError):
                self._file.close()
            what = f"--emulate-log {self._path}: it cannot be written ({error.strerror})"
            raise EmulationError(f"{what}; make room, or give another file") from None


class Device:
    """Serial, as a GPU is. Same seed and same batches, same times."""

    def __init__(self, hardware: Hardware, noise: float, seed: int, log: Path | None = None) -> None:
        """`noise`: sigma of the lognormal factor on each batch. `log`: a CSV file, one row a batch."""
        self._hardware = hardware
        self._noise = noise
        self._random = np.random.default_rng(seed)
        self._free = 0.0
        self._log = Rows(log) if log is not None else None
        self.batches: deque[Batch] = deque(maxlen=KEPT_BATCHES)
        """The device's own clock: what was run, oldest first."""
        self.seconds([16], [0], [])  # compiled before the first request

    def seconds(self, prefill: Sequence[int], prefill_cached: Sequence[int], decode: Sequence[int]) -> float:
        """Time of a batch without noise. Tokens and cached tokens by request; a decode has one token."""
        return float(
            batch_seconds(
                self._hardware.timing,
                np.array(prefill, dtype=np.int64),
                np.array(prefill_cached, dtype=np.int64),
                np.array(decode, dtype=np.int64),
            )
        )

    def submit(self, prefill: Sequence[int], prefill_cached: Sequence[int], decode: Sequence[int]) -> Batch:
        """Hand a batch over now; it begins when the device is free."""
        start = max(self._free, time.monotonic())
        factor = float(np.exp(self._noise * self._random.standard_normal()))
        self._free = start + factor * self.seconds(prefill, prefill_cached, decode)
        batch = Batch(
            start,
            self._free,
            sum(prefill),
            len(prefill),
            len(decode),
            sum(prefill_cached) + sum(decode),
        )
        self.batches.append(batch)
        return batch

    def wait(self, batch: Batch) -> None:
        """Return at the end of `batch`, as precisely as this machine can."""
        while (left := batch.end - (now := time.monotonic())) > 0:
            if left > SPIN_SECONDS:
                time.sleep(left - SPIN_SECONDS)
        if self._log is not None:
            self._log.add(batch, now)

    def close(self) -> None:
        """Write out the log."""
        if self._log is not None:
            self._log.close()
            self._log = None


def digest(token_ids: Sequence[int], salt: str) -> int:
    """64 bits that stand for a prompt; the same on every machine."""
    content = array("q", token_ids).tobytes() + salt.encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def token(prompt: int, position: int) -> int:
    """The id "sampled" at output `position` (from 0) after the prompt of that digest, in any schedule."""
    return FIRST_TOKEN + mixed(prompt, position) % TOKENS


def mixed(prompt: int, position: int) -> int:
    """64 well-mixed bits of both (splitmix64's finish)."""
    value = (prompt + (position + 1) * _MIX) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
