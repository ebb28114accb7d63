"""`make bench-paper` from end to end on a handful of requests: simulate, resume, write, draw."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from slidingserve.report import paper
from slidingserve.report.rows import load, select
from slidingserve.sim.config import SimError
from slidingserve.sim.goodput import Search
from slidingserve.sim.jobs import Job
from slidingserve.sim.store import Store

from benchmarks.paper import __main__ as command
from benchmarks.paper import output, plan, simulated
from benchmarks.paper.experiments import Where
from benchmarks.paper.measurements import Measurement
from benchmarks.paper.options import POLICIES, SLIDING, options
from benchmarks.paper.runner import Runner

TINY = replace(plan.QUICK, requests=40, workloads=("mixed_v1",), settings=1, load_factors=(0.5,))
HERE = plan.here(paper.QWEN, "mixed_v1")


@pytest.mark.timeout(900)  # the first simulation on a machine compiles the simulator
def test_a_tiny_run_writes_rows_table_and_report_and_a_second_one_simulates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "BUILD", tmp_path)
    monkeypatch.setattr(plan, "QUICK", TINY)
    monkeypatch.setattr("sys.argv", ["paper"])
    monkeypatch.setenv("QUICK", "1")
    monkeypatch.setenv("PROCESSES", "1")
    monkeypatch.setenv("REQUESTS", "100")
    assert command.main() == 0
    out = tmp_path / "bench-paper-quick"
    results = load(out / "results.json")
    assert {row.figure for row in results.rows} == {"figure4", "figure5", "figure6", "table4", "table5"}
    assert {row.policy for row in select(results.rows, figure="figure4")} == set(POLICIES)
    assert results.about.quick
    assert json.loads((out / "results.json").read_text())["about"]["complete"]
    assert "few requests, coarse rates" in (out / "report" / "index.html").read_text()
    for name in ("figure4", "figure5", "figure6", "table4", "table5"):
        assert (out / "report" / f"{name}.png").exists()
    first, runs = (out / "results.json").read_bytes(), len(Store(out / "runs"))
    monkeypatch.setattr(output, "report", lambda document, out: [])
    assert command.main() == 0
    assert f"{runs} runs are there from before" in capsys.readouterr().err
    assert len(Store(out / "runs")) == runs
    assert (out / "results.json").read_bytes() == first


def test_settings_reach_the_policy_the_predictor_and_the_machine() -> None:
    setting = options(margin=1.3, method="ols", oracle=True, refresh_seconds=None)
    where = replace(HERE, slo_base_ms=20.0, noise=0.1, async_scheduling=True)
    config = simulated.engine(Measurement("load", where, SLIDING, setting, 1, 7, 100, 1.0))
    assert (config.settings.margin, config.predictor.method) == (1.3, "ols")
    assert (config.predictor.fit_seed, config.predictor.oracle, config.predictor.refresh_seconds) == (
        7,
        True,
        None,
    )
    assert (config.hardware.serving_overhead, config.hardware.noise_sigma) == (0.020, 0.1)
    assert config.async_scheduling


def test_every_policy_meets_the_same_requests_and_promises_also_on_a_changed_machine() -> None:
    def job(policy: str, where: Where) -> Job:
        return simulated.job(Measurement("load", where, policy, (), 1, None, 100, 2.0), 2.0)

    jobs = [
        job(policy, where)
        for policy in POLICIES
        for where in (HERE, replace(HERE, noise=0.1, link=(1e-5, 1e10), host=0.01))
    ]
    for other in jobs[1:]:
        assert (other.trace.arrival == jobs[0].trace.arrival).all()
        assert (other.ttft == jobs[0].ttft).all()
        assert (other.tbt == jobs[0].tbt).all()
    longer = job("fcfs", replace(HERE, slo_base_ms=100.0))
    short = jobs[0].trace.slo_class == 0
    assert longer.ttft[short] - jobs[0].ttft[short] == pytest.approx(5 * 0.040)


def test_figure_6_counts_every_request_and_knows_the_rate() -> None:
    job = simulated.job(Measurement("load", HERE, "fcfs", (), 1, None, 100, None), None)
    everybody = "f" * (2 * ((len(job.trace) + 7) // 8))
    rows = simulated.over_time(job.trace, {"missed": everybody, "overall": {"requests": len(job.trace)}})
    assert [row["value"] for row in rows] == sorted(row["value"] for row in rows)
    assert rows[-1]["value"] == len(job.trace)
    assert rows[-1]["time_s"] == 1200
    assert {row["qps"] for row in rows if row["time_s"] < 120} == {1.0}
    assert {row["qps"] for row in rows if 120 <= row["time_s"] < 240} == {2.5}


def test_a_search_starts_where_it_is_told_and_judges_by_its_criterion() -> None:
    measurement = Measurement(
        "goodput", HERE, "fcfs", (), 1, None, 100, criterion="per_class", tolerance=0.02
    )
    search = simulated.plan(measurement, 1.5)
    assert isinstance(search, Search)
    (job,) = search.jobs()
    assert job.trace.arrival[-1] == pytest.approx(100 / 1.5, rel=0.4)
    assert search.result.criterion == "per_class"


def test_time_left_is_learned_from_what_was_simulated_and_not_from_what_the_store_had() -> None:
    def one(seed: int) -> Measurement:
        return Measurement("load", HERE, SLIDING, (), seed, 1, 1000, 1.0)

    runner = Runner(Store(None), 1, Console(quiet=True))
    runner.left = 3000.0
    runner.note([one(1)], 0, 0.1)
    assert (runner.left, runner.pace) == (2000.0, 0.0)
    runner.note([one(2)], 1, 50.0)
    assert (runner.left, runner.pace) == (1000.0, 0.05)


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("happens", "status", "said"),
    [
        (lambda: _raise(OSError(28, "No space left on device")), 1, "cannot be written (No space left"),
        (lambda: _raise(SimError("--cache x: cannot be written")), 1, "--cache x: cannot be written"),
        (lambda: _raise(BrokenProcessPool()), 1, "was killed, as the system does when the memory runs out"),
        (lambda: signal.raise_signal(signal.SIGINT), 130, "stopped; the same command goes on"),
        (lambda: signal.raise_signal(signal.SIGTERM), 143, "stopped; the same command goes on"),
    ],
)
def test_what_ends_a_benchmark_is_one_line(
    happens: Callable[[], None],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "BUILD", tmp_path)
    monkeypatch.setattr("sys.argv", ["paper"])
    monkeypatch.setattr(command, "measured", lambda *settings: happens())
    assert command.main() == status
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1
