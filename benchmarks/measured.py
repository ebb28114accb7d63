"""What an operator did and used, for `benchmarks.scale`: its calls by the audit log, its process by /proc."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.contract.space import CREDENTIAL, Operator


@dataclass
class Numbers:
    """What one size gave."""

    resources: int
    rows: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, value: str) -> None:
        """One line of the output, at once."""
        self.rows[what] = value
        print(f"{self.resources:>5}  {what:<44} {value}", flush=True)


def calls(operator: Operator, since: int) -> Iterable[dict[str, Any]]:
    """Every call of the operator after an offset of the audit log, once."""
    path = operator.space.cluster.audit_log()
    assert path is not None, "the audit log is needed: use CLUSTER=local"  # noqa: S101
    with path.open("rb") as log:
        log.seek(since)
        for line in log:
            if not line.endswith(b"}\n"):
                return
            event = json.loads(line)
            who = event["user"].get("extra", {}).get(CREDENTIAL, [])
            if event["stage"] == "ResponseComplete" and not operator.credentials.isdisjoint(who):
                yield event


def process(operator: Operator) -> tuple[float, float, float]:
    """MiB resident now and at most, and CPU seconds."""
    assert operator.process is not None  # noqa: S101
    proc = Path(f"/proc/{operator.process.pid}")
    memory = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", (proc / "status").read_text(), re.M))
    ticks = (proc / "stat").read_text().rpartition(")")[2].split()[11:13]
    cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return int(memory["VmRSS"]) / 1024, int(memory["VmHWM"]) / 1024, cpu


def answered(event: dict[str, Any]) -> float:
    """Time of the answer."""
    return datetime.fromisoformat(event["stageTimestamp"]).timestamp()


def words(calls: list[dict[str, Any]]) -> str:
    """`verb resource count` of all calls, most first."""

    def name(event: dict[str, Any]) -> str:
        target = event.get("objectRef", {})
        what = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
        return f"{event['verb']} {what}" if what else "discovery"

    return ", ".join(f"{what} {count}" for what, count in Counter(map(name, calls)).most_common()) or "none"


def table(found: list[Numbers]) -> str:
    """All sizes side by side, in Markdown."""
    lines = [
        "",
        f"| resources | {' | '.join(str(n.resources) for n in found)} |",
        "|---|" + "---|" * len(found),
    ]
    for what in found[0].rows:
        lines.append(f"| {what} | {' | '.join(n.rows.get(what, '') for n in found)} |")
    return "\n".join(lines)
