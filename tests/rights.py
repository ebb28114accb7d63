"""Rights as `verb group/resource/subresource`: what the chart grants, and what an account asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Object = dict[str, Any]

UNASKED = {"update sloserve.dev/sloserves/finalizers"}
"""Asked by an admission plugin (OwnerReferencesPermissionEnforcement, on in OpenShift) about a request, so it
stands in no log; tests/contract/test_rights.py takes it away and sees children refused."""


def granted(documents: Iterable[Object]) -> set[str]:
    """Rights of the operator's account in a rendered chart: of the roles that are bound to it."""
    found = list(documents)
    bound = {doc["roleRef"]["name"] for doc in found if doc["kind"].endswith("RoleBinding")}
    rights = set()
    for doc in found:
        if doc["kind"] in ("Role", "ClusterRole") and doc["metadata"]["name"] in bound:
            for rule in doc["rules"]:
                rights |= {
                    f"{verb} {group}/{resource}"
                    for verb in rule["verbs"]
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                }
    return rights


def requests(log: Path, user: str, since: int = 0) -> Iterator[tuple[str, int]]:
    """(right, status) of each request of a user after an offset of the API server's audit log."""
    with log.open("rb") as file:
        file.seek(since)
        lines = file.read().split(b"\n")[:-1]
    for event in map(json.loads, filter(None, lines)):
        target = event.get("objectRef")
        if event["user"].get("username") == user and target and "resource" in target:
            what = [target.get("apiGroup", ""), target["resource"], target.get("subresource")]
            yield (
                f"{event['verb']} {'/'.join(part for part in what if part is not None)}",
                event.get("responseStatus", {}).get("code", 0),
            )
