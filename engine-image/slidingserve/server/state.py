"""The state of the whole pod from small files, one writer each, so that any API server answers for all
processes.

A file is replaced by rename and never edited. One that cannot be read counts as not reported; its writer
writes it again within seconds.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slidingserve import __version__
from slidingserve.server.attainment import OBJECTIVES

Document = dict[str, Any]
_KEYS: Mapping[str, type] = {"role": str, "index": int, "revision": str, "generation": int}


def stamped(role: str, index: int, document: Mapping[str, Any]) -> Document:
    """What the calling process reports, with its role, its index in the pod and its pid."""
    return {"role": role, "index": index, "pid": os.getpid(), **document}


def same_process(one: Document, other: Document) -> bool:
    """Whether two reports are of one process."""
    return bool((one["role"], one["index"]) == (other["role"], other["index"]))


def write(directory: Path, document: Document) -> None:
    """Replace the file of the process that `document` is stamped with. Raises OSError."""
    target = directory / f"{document['role']}-{document['index']}.json"
    # Two threads of a process may write at once (a change of configuration beside the regular beat).
    scratch = target.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
    scratch.write_text(json.dumps(document))
    scratch.replace(target)


def read_all(directory: Path) -> list[Document]:
    """Every readable process file."""
    found = []
    for path in sorted(directory.glob("*.json")):
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(document, dict) and all(type(document.get(key)) is kind for key, kind in _KEYS.items()):
            found.append(document)
    return found


def plain(value: Any) -> Any:
    """The same as any JSON parser reads it: a number that JSON has no word for is null, half of a surrogate
    pair a question mark."""
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def merge(
    documents: list[Document], expected: Mapping[str, int], vllm_version: str, fallback: str
) -> Document:
    """The answer of GET /slidingserve/v1/state.

    `expected`: processes by role; while one of them has not reported, generation 0 is applied. `fallback`:
    why vLLM's own scheduler runs, or "".
    """
    reported = sorted(
        (d for d in documents if d["index"] < expected.get(d["role"], 0)),
        key=lambda d: (d["role"], d["index"]),
    )
    complete = len(reported) == sum(expected.values())
    newest = max(reported, key=lambda d: d["generation"], default={})
    refused = [d["rejected"] for d in reported if d.get("rejected")]
    reason = fallback or next((d["fallback"] for d in reported if d.get("fallback")), "")
    cores = [d for d in reported if d["role"] == "core"]
    settings = (cores or reported or [{}])[0]
    return {
        "schemaVersion": 1,
        "version": __version__,
        "vllmVersion": vllm_version,
        "applied": _applied([d for d in reported if not d.get("fallback")])
        if complete
        else {"revision": "", "generation": 0},
        "rejected": max(refused, key=lambda r: r["generation"]) if refused else None,
        "fallback": {"reason": reason} if reason else None,
        "policy": "fcfs" if reason else settings.get("policy", ""),
        "alpha": settings.get("alpha"),
        "compiling": next((d["compiling"] for d in cores if d.get("compiling")), ""),
        "unknownKeys": newest.get("unknownKeys", []),
        "processes": [
            {
                **{key: d.get(key) for key in ("role", "index", "pid", "revision", "generation")},
                "message": (d.get("rejected") or {}).get("message", ""),
            }
            for d in reported
        ],
        "predictor": next((d["predictor"] for d in cores if "predictor" in d), None),
        "classes": _classes(reported),
    }


def _applied(documents: list[Document]) -> Document:
    """The lowest generation over the processes; no revision while they differ within that generation."""
    generation = min((d["generation"] for d in documents), default=0)
    revisions = {d["revision"] for d in documents if d["generation"] == generation}
    return {"revision": revisions.pop() if len(revisions) == 1 else "", "generation": generation}


def _classes(documents: list[Document]) -> Document:
    """Counts by class, summed over the API servers."""
    total: Document = {}
    for document in documents:
        for name, counts in document.get("classes", {}).items():
            into = total.setdefault(
                name, {"requests": 0, "good": 0, "violations": dict.fromkeys(OBJECTIVES, 0)}
            )
            into["requests"] += counts["requests"]
            into["good"] += counts["good"]
            for objective in OBJECTIVES:
                into["violations"][objective] += counts["violations"][objective]
    return total
