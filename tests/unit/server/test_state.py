"""One answer from the files of several processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slidingserve.server import state

EXPECTED = {"api": 2, "core": 1}


def report(role: str, index: int, generation: int, revision: str = "r", **more: Any) -> dict[str, Any]:
    return {"role": role, "index": index, "pid": 7, "generation": generation, "revision": revision, **more}


def merge(documents: list[dict[str, Any]], fallback: str = "") -> dict[str, Any]:
    return state.merge(documents, EXPECTED, "0.32.0", fallback)


def test_applied_is_the_lowest_over_the_processes() -> None:
    merged = merge([report("api", 0, 5, "new"), report("api", 1, 4, "old"), report("core", 0, 5, "new")])
    assert merged["applied"] == {"revision": "old", "generation": 4}


def test_nothing_is_applied_until_every_process_reported() -> None:
    merged = merge([report("api", 0, 5), report("core", 0, 5)])
    assert merged["applied"] == {"revision": "", "generation": 0}


def test_one_generation_with_two_revisions_has_none_applied_everywhere() -> None:
    merged = merge([report("api", 0, 0, "a"), report("api", 1, 0, "b"), report("core", 0, 0, "a")])
    assert merged["applied"] == {"revision": "", "generation": 0}


def test_processes_are_listed_by_role_and_index_whoever_answers() -> None:
    merged = merge([report("api", 1, 5), report("core", 0, 5), report("api", 0, 5)])
    assert [(p["role"], p["index"]) for p in merged["processes"]] == [("api", 0), ("api", 1), ("core", 0)]


def test_files_beyond_the_pods_processes_are_not_counted() -> None:
    documents = [report("api", 0, 5), report("api", 1, 5), report("api", 2, 1), report("core", 0, 5)]
    assert merge(documents)["applied"]["generation"] == 5


def test_a_refusal_by_any_process_shows_with_its_message() -> None:
    refused = {"revision": "x", "generation": 6, "message": "scheduler.chunk.maxTokens: 9 is above 8"}
    merged = merge([report("api", 0, 5), report("api", 1, 5), report("core", 0, 5, rejected=refused)])
    assert merged["rejected"] == refused
    assert merged["processes"][2]["message"] == refused["message"]


def test_counts_by_class_are_summed_over_the_api_servers() -> None:
    counts = {"requests": 10, "good": 9, "violations": {"ttft": 1, "tbt": 0, "request": 1}}
    documents = [report("api", i, 5, classes={"dialogue": counts}) for i in (0, 1)]
    merged = merge([*documents, report("core", 0, 5)])
    violations = {"ttft": 2, "tbt": 0, "request": 2}
    assert merged["classes"] == {"dialogue": {"requests": 20, "good": 18, "violations": violations}}


def test_a_core_that_stepped_back_gives_the_reason_and_holds_nothing_up() -> None:
    documents = [
        report("api", 0, 5),
        report("api", 1, 5),
        report("core", 0, 0, "", fallback="chunked prefill"),
    ]
    merged = merge(documents)
    assert merged["fallback"] == {"reason": "chunked prefill"}
    assert merged["applied"]["generation"] == 5
    assert merged["policy"] == "fcfs"


def test_damaged_files_are_as_good_as_absent(tmp_path: Path) -> None:
    state.write(tmp_path, report("api", 0, 5))
    (tmp_path / "core-0.json").write_bytes(b'{"role": "co\xff')
    (tmp_path / "core-1.json").write_text("[]")
    (tmp_path / "core-2.json").write_text("{}")
    (tmp_path / "api-9.json").mkdir()
    assert state.read_all(tmp_path) == [report("api", 0, 5)]


def test_a_written_file_leaves_no_scratch_behind(tmp_path: Path) -> None:
    state.write(tmp_path, report("api", 0, 5))
    state.write(tmp_path, report("api", 0, 6))
    assert [path.name for path in tmp_path.iterdir()] == ["api-0.json"]
    assert state.read_all(tmp_path)[0]["generation"] == 6


def test_what_a_core_compiles_is_told_beside_what_decides_meanwhile() -> None:
    documents = [report("api", 0, 6), report("api", 1, 6)]
    merged = merge([*documents, report("core", 0, 5, policy="ppas", compiling="qoserve")])
    assert (merged["policy"], merged["compiling"], merged["applied"]["generation"]) == ("ppas", "qoserve", 5)
    assert merge([*documents, report("core", 0, 6, policy="qoserve", compiling="")])["compiling"] == ""
    assert merge([*documents, report("core", 0, 6)])["compiling"] == ""
