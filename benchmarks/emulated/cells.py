"""What is measured: a policy with its settings at a rate, on the same requests and promises as all others."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slidingserve import hardware
from slidingserve.config import ConfigError, loads
from slidingserve.hardware import Hardware
from slidingserve.workloads import Trace, get
from slidingserve.workloads.slo import PAPER, promises
from slidingserve.workloads.trace import Floats


class SpecError(ValueError):
    """A policy that cannot be run as written; the text is one sentence."""


@dataclass(frozen=True)
class Spec:
    """A policy as people write it: ``NAME[:BUDGET][,option=value...]``."""

    label: str
    policy: str
    budget: int | None
    """Total tokens of a step. For fcfs it is the engine's own limit, which needs a start."""
    options: tuple[tuple[str, Any], ...]

    @staticmethod
    def parse(text: str) -> Spec:
        """Raises SpecError."""
        head, *pairs = text.split(",")
        policy, _, budget = head.partition(":")
        try:
            options = tuple((name, _value(value)) for name, value in (pair.split("=") for pair in pairs))
            spec = Spec(text, policy, int(budget) if budget else None, options)
        except ValueError:
            raise SpecError(
                f"policy {text!r}: write NAME[:BUDGET][,option=value], as sarathi_edf:256"
            ) from None
        try:
            unknown = loads(json.dumps(spec.document(1))).unknown_keys()
        except ConfigError as error:
            raise SpecError(f"policy {text!r}: {error}") from None
        if unknown:
            raise SpecError(f"policy {text!r}: there is no {', '.join(unknown)}")
        return spec

    @property
    def engine_tokens(self) -> int | None:
        """--max-num-batched-tokens of the engine that it needs; None: the profile's."""
        return self.budget if self.policy == "fcfs" else None

    def settings(self) -> dict[str, Any]:
        """`scheduler.options` by their names in Python."""
        budget = {} if self.budget is None or self.policy == "fcfs" else {"budget": self.budget}
        return {**budget, **dict(self.options)}

    def document(self, generation: int) -> dict[str, Any]:
        """slidingserve.json. The classes are names only: each request brings its own limits."""
        options = {_camel(name): value for name, value in self.settings().items()}
        return {
            "schemaVersion": 1,
            "revision": f"{generation:012x}",
            "generation": generation,
            "classes": [
                {"name": name, "ttftMilliseconds": 1000, "tbtMilliseconds": 1000 * slo.tbt_seconds}
                for name, slo in PAPER.items()
            ],
            "defaultClass": next(iter(PAPER)),
            "scheduler": {"policy": self.policy, "options": options},
        }


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True)
class Setting:
    """What all cells of a comparison share."""

    profile: str
    workload: str
    requests: int
    seed: int

    @property
    def hardware(self) -> Hardware:
        """The profile."""
        return hardware.get(self.profile)

    def trace(self, rate: float) -> tuple[Trace, Floats, Floats]:
        """Requests and promises (TTFT, TBT; seconds) at a rate, the same for every policy.

        Requests keep their lengths from rate to rate.
        """
        trace = get(self.workload, requests=self.requests, qps=rate, seed=self.seed)
        solo = hardware.solo_seconds(self.hardware, trace.prompt_tokens)
        return trace, *promises(trace, solo, PAPER)


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    setting: Setting
    spec: Spec
    rate: float

    @property
    def key(self) -> dict[str, Any]:
        """What makes a recorded cell this one."""
        return {
            **asdict(self.setting),
            "policy": self.spec.label,
            "rate": self.rate,
        }

    @property
    def file(self) -> str:
        """Name of its file; safe in any file system."""
        words = [self.setting.profile, self.setting.workload, self.spec.label, f"{self.rate:g}"]
        words += [f"{self.setting.requests}", f"seed{self.setting.seed}"]
        return (
            "_".join(word.replace(":", "-").replace(",", "-").replace("=", "-") for word in words) + ".json"
        )


def shuffled(cells: Sequence[Cell], seed: int) -> list[list[Cell]]:
    """Groups of cells that share an engine, groups and cells in a random order of that seed."""
    groups: dict[int | None, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.spec.engine_tokens, []).append(cell)
    chance = random.Random(seed)
    order = list(groups.values())
    chance.shuffle(order)
    for group in order:
        chance.shuffle(group)
    return order
