"""Who wrote what, by the API server's own audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.demo.install import RELEASE, SYSTEM

OPERATOR = f"system:serviceaccount:{SYSTEM}:{RELEASE}"
WRITES = ("create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Write:
    """One write request: ``what`` is resource[/subresource], ``code`` the answer's status."""

    verb: str
    what: str
    namespace: str
    name: str
    code: int


class Audit:
    """The part of a log that is written after this object was made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.restart()

    def restart(self) -> None:
        """Forget what was written so far."""
        self._offset = self.path.stat().st_size
        self._since = datetime.now(UTC)

    def entries(self) -> list[dict[str, Any]]:
        """Finished requests since the start, oldest first."""
        with self.path.open("rb") as log:
            log.seek(self._offset)
            lines = log.read().split(b"\n")[:-1]
        events = [json.loads(line) for line in lines if line.strip()]
        return [event for event in events if event.get("stage") == "ResponseComplete"]

    def quiet_seconds(self, user: str = OPERATOR) -> float:
        """Seconds since a user last wrote, or since the start if it did not."""
        stamps = [
            datetime.fromisoformat(event["stageTimestamp"])
            for event in self.entries()
            if event["user"]["username"] == user and event["verb"] in WRITES
        ]
        return (datetime.now(UTC) - max(stamps, default=self._since)).total_seconds()

    def writes(self, user: str = OPERATOR) -> list[Write]:
        """What a user wrote or tried to write."""
        found = []
        for event in self.entries():
            if event["user"]["username"] == user and event["verb"] in WRITES:
                target = event.get("objectRef", {})
                what = "/".join(part for part in (target.get("resource"), target.get("subresource")) if part)
                found.append(
                    Write(
                        event["verb"],
                        what,
                        target.get("namespace", ""),
                        target.get("name", ""),
                        event.get("responseStatus", {}).get("code", 0),
                    )
                )
        return found
