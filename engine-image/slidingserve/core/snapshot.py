"""The input of a round: every request as a row of numpy columns, plus what the engine has room for.

The adapter (or the simulator, or a recorded JSON document, see `rows`) makes a `Snapshot`; a policy turns it
into a `Plan`. Times are seconds on one monotonic clock. Under asynchronous scheduling `now` is the predicted
end of the work in flight, and the columns count that work as done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidingserve.core.columns import Bools, Columns, Floats, Ints
from slidingserve.core.rows import Phase, Row, parse_document, row_document


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of one engine at one moment, n requests as columns of length n. Never changed once made."""

    now: float
    ids: list[str]
    phase: NDArray[np.int8]
    arrival: Floats
    """a of equation 1, seconds on the clock of `now`."""
    prefill_tokens: Ints
    """Tokens to compute before the next token: the prompt, or prompt and output after a preemption."""
    computed_tokens: Ints
    """Of those and of the output, how many are in the KV cache: the context length u of Table 1."""
    output_tokens: Ints
    """k of equation 1: tokens delivered so far. A preemption does not set it back."""
    ttft_limit: Floats
    """L_ttft, seconds."""
    tbt_limit: Floats
    """L_tbt, seconds."""
    safeguard: Bools
    """g of equation 12: the scheduler protects these requests first."""
    relegated: Bools
    """What an earlier plan relegated (behind all others); whoever makes snapshots remembers it."""
    max_tokens: int
    """B: the most tokens that one batch may hold."""
    max_admissions: int
    """How many WAITING requests may start in this step."""
    free_kv_tokens: int
    """Room in the KV cache, in tokens."""
    throughput: float
    """ρ of equation 9: prefill tokens a second, lately; 0 when nothing was measured yet."""

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Row | Sequence[object]],
        *,
        now: float,
        max_tokens: int,
        max_admissions: int = 1 << 30,
        free_kv_tokens: int = 1 << 30,
        throughput: float = 0.0,
    ) -> Snapshot:
        """Make a snapshot from one tuple a request, with the fields of `Row` in order. Nothing is checked."""
        full = [row if len(row) == len(Row._fields) else Row(*row) for row in rows]
        columns: list[Sequence[object]] = list(zip(*full, strict=True)) or [()] * len(Row._fields)
        ids, phase, arrival, prefill, computed, output, ttft, tbt, safeguard, relegated = columns
        return cls(
            now=now,
            ids=[str(name) for name in ids],
            phase=np.array(phase, np.int8),
            arrival=np.array(arrival, np.float64),
            prefill_tokens=np.array(prefill, np.int64),
            computed_tokens=np.array(computed, np.int64),
            output_tokens=np.array(output, np.int64),
            ttft_limit=np.array(ttft, np.float64),
            tbt_limit=np.array(tbt, np.float64),
            safeguard=np.array(safeguard, np.bool_),
            relegated=np.array(relegated, np.bool_),
            max_tokens=max_tokens,
            max_admissions=max_admissions,
            free_kv_tokens=free_kv_tokens,
            throughput=throughput,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def is_decode(self) -> Bools:
        """D of the paper, as a mask of shape n; the rest is P."""
        return np.equal(self.phase, Phase.DECODE)

    @cached_property
    def remaining(self) -> Ints:
        """Tokens to compute before the next token appears, shape n: equation 7 for a prefill, 1 for a decode.

        At least 1, because computing a request's last known token is what yields the next one.
        """
        left = np.maximum(self.prefill_tokens - self.computed_tokens, 1)
        return np.where(self.is_decode, 1, left)

    @cached_property
    def deadline(self) -> Floats:
        """When the next token is due, seconds, shape n: d = a + L_ttft + k L_tbt (equation 1).

        Cumulative: tokens that come early build slack. A late first token moves no later deadline.
        """
        return self.arrival + self.ttft_limit + self.output_tokens * self.tbt_limit

    @cached_property
    def slack(self) -> Floats:
        """Seconds left until `deadline`, shape n (equation 8); negative once it has passed."""
        return self.deadline - self.now

    @cached_property
    def columns(self) -> Columns:
        """The same for compiled code, without ids."""
        return Columns(
            now=float(self.now),
            phase=self.phase,
            arrival=self.arrival,
            remaining=self.remaining,
            cached=self.computed_tokens,
            slack=self.slack,
            tbt_limit=self.tbt_limit,
            ttft_limit=self.ttft_limit,
            safeguard=self.safeguard,
            relegated=self.relegated,
            max_tokens=int(self.max_tokens),
            max_admissions=int(self.max_admissions),
            free_kv_tokens=int(self.free_kv_tokens),
            throughput=float(self.throughput),
        )

    def to_json(self) -> dict[str, Any]:
        """The snapshot as a JSON object, the inverse of `from_json`; the fields are in `rows`."""
        columns = (
            self.ids,
            self.phase.tolist(),
            self.arrival.tolist(),
            self.prefill_tokens.tolist(),
            self.computed_tokens.tolist(),
            self.output_tokens.tolist(),
            self.ttft_limit.tolist(),
            self.tbt_limit.tolist(),
            self.safeguard.tolist(),
            self.relegated.tolist(),
        )
        return {
            "now": self.now,
            "max_tokens": self.max_tokens,
            "max_admissions": self.max_admissions,
            "free_kv_tokens": self.free_kv_tokens,
            "throughput": self.throughput,
            "requests": [row_document(Row(*fields)) for fields in zip(*columns, strict=True)],
        }

    @classmethod
    def from_json(cls, document: object) -> Snapshot:
        """Read a recorded snapshot. Raises ValueError with one sentence: field, value and remedy."""
        rows, engine = parse_document(document)
        return cls.from_rows(rows, **engine)


__all__ = ["Bools", "Floats", "Ints", "Phase", "Row", "Snapshot"]
