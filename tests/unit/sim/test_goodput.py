"""Searches, the pool that serves them, and the store that remembers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slidingserve.sim import jobs, output
from slidingserve.sim.compare import Measure
from slidingserve.sim.config import SimError
from slidingserve.sim.goodput import HIGHEST, LOWEST, Search
from slidingserve.sim.jobs import Job
from slidingserve.sim.pool import carry_out
from slidingserve.sim.store import Store, default_directory

from tests.unit.sim.engines import busy, engine, limits


def judged(missed: int, requests: int = 1000) -> dict[str, Any]:
    group = {"requests": requests, "missed": missed, "missed_ttft": missed, "missed_tbt": 0}
    return {"classes": {"dialogue": group}, "overall": group}


def drive(search: Search, limit: float) -> int:
    """Serve a search as an engine of that goodput would; how many rates it asked for."""
    rates = 0
    while asked := search.jobs():
        rates += 1
        assert rates < 60
        search.take([judged(5 if job.seed <= limit else 50) for job in asked])
    return rates


def asking(start: float) -> Search:
    def at(qps: float) -> list[Job]:
        of = busy(2)
        return [Job(engine(), of, *limits(of), qps)] * 3  # type: ignore[arg-type]  # the seed says the rate

    return Search(at, start=start)


@pytest.mark.parametrize("limit", [0.05, 0.7, 1.83, 40.0])
@pytest.mark.parametrize("start", [0.1, 1.0, 25.0])
def test_a_search_ends_within_2_percent_wherever_it_starts(limit: float, start: float) -> None:
    search = asking(start)
    assert drive(search, limit) < 30
    found = search.result
    assert found.above is not None
    assert found.qps <= limit < found.above
    assert found.above / found.qps == pytest.approx(1.02)
    assert found.at["dialogue"].requests == 3000
    assert search.remaining() == 0


def test_the_grid_of_rates_does_not_depend_on_the_start() -> None:
    found = set()
    for start in (0.3, 1.0, 7.0):
        search = asking(start)
        drive(search, 1.83)
        found.add(round(search.result.qps, 9))
    assert len(found) == 1


def test_an_engine_that_holds_no_rate_or_every_one_is_said_so() -> None:
    none, every = asking(1.0), asking(1.0)
    drive(none, 0.0)
    drive(every, 1e9)
    assert none.result.qps == 0.0
    assert none.result.above is not None
    assert none.result.above < 1.03 * LOWEST
    assert none.result.to_json()["violations_percent"] is None, "no rate held, so none was counted"
    assert output.ranged(none.result.to_json(), "violations_percent") == "-"
    assert every.result.qps == pytest.approx(HIGHEST, rel=0.03)
    assert every.result.above is None, "no rate failed"


def job(seed: int = 0, **changes: Any) -> Job:
    of = busy(5)
    return Job(engine(**changes), of, *limits(of), seed)


def test_a_run_is_named_by_all_that_decides_it() -> None:
    assert job().key == job().key
    others = [job(1), job(policy="ppas"), job(noise=0.1), job(max_tokens=64), job(async_scheduling=True)]
    assert len({one.key for one in [job(), *others]}) == 6


def test_a_store_goes_on_where_it_was_and_skips_a_torn_line(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", {"n": 1})
    store.put("b", {"n": 2})
    file = next(tmp_path.glob("*.jsonl"))
    file.write_bytes(file.read_bytes()[:-4])
    again = Store(tmp_path)
    assert again.get("a") == {"n": 1}
    assert again.get("b") is None
    again.put("c", {"n": 3})
    last = Store(tmp_path)
    assert [last.get(key) for key in "abc"] == [{"n": 1}, None, {"n": 3}]


@pytest.mark.parametrize("line", [b'"n":2', b"[" * 100_000, b"\xff\xfe", b'{"key":"b","run":3}', b"[]", b""])
def test_a_line_that_is_not_what_was_written_is_made_again(line: bytes, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", {"n": 1, "share": 0.1, "missed": "ff"})
    store.put("b", {"n": 1})
    file = next(tmp_path.glob("*.jsonl"))
    first, second = file.read_bytes().splitlines()
    damaged = second.replace(b'"n":1', line) if line.startswith(b'"') else line
    file.write_bytes(first + b"\n" + damaged + b"\n")
    again = Store(tmp_path)
    assert again.get("a") == {"n": 1, "share": 0.1, "missed": "ff"}
    assert again.get("b") is None


def test_a_store_from_before_there_were_sums_is_read(tmp_path: Path) -> None:
    Store(tmp_path)
    next(tmp_path.glob("*.jsonl")).write_text('{"key":"a","run":{"n":1}}\n')
    assert Store(tmp_path).get("a") == {"n": 1}


def test_a_user_without_a_home_is_told_to_name_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(SimError, match="no home directory to keep runs in; name a directory"):
        default_directory()


def test_a_store_that_cannot_be_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(SimError, match="cannot be written"):
        Store(blocked)


def test_two_processes_make_what_one_would_and_nothing_is_made_twice(tmp_path: Path) -> None:
    wanted = [job(seed) for seed in (0, 1, 2)]
    measures = [Measure(f"seed {one.seed}", 1.0, [one]) for one in wanted]
    seen: list[tuple[int, int]] = []
    store = Store(tmp_path)
    assert carry_out(measures, store, 2, lambda made, left: seen.append((made, left))) == 3
    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 0)
    for measure, one in zip(measures, wanted, strict=True):
        assert measure.result.runs == [jobs.execute(one)]
    again = [Measure(f"seed {one.seed}", 1.0, [one]) for one in wanted]
    assert carry_out(again, Store(tmp_path), 2) == 0
    assert [measure.result.runs for measure in again] == [measure.result.runs for measure in measures]
