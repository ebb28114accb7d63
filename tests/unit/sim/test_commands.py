"""The command lines: what people type, and one line for what cannot be."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from slidingserve import cli
from slidingserve.core.settings import PolicySettings
from slidingserve.sim.commands.policy import engine_of
from slidingserve.sim.config import SimError
from slidingserve.sim.store import Store
from typer.testing import CliRunner

from tests.unit.sim.engines import engine

QUICK = ["--workload", "sharegpt", "--requests", "40"]


def ran(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(args))
    return result.exit_code, result.stdout, result.stderr


def test_simulate_prints_a_table_and_writes_run_requests_and_batches(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("run.json", "requests.csv", "steps.csv")}
    code, out, err = ran(
        "simulate", *QUICK, "--qps", "2", "--output", str(files["run.json"]),
        "--csv", str(files["requests.csv"]), "--steps", str(files["steps.csv"]),
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "dialogue" in out
    run = json.loads(files["run.json"].read_text())
    assert run["overall"]["requests"] == 40
    requests = list(csv.DictReader(files["requests.csv"].read_text().splitlines()))
    steps = list(csv.DictReader(files["steps.csv"].read_text().splitlines()))
    assert len(requests) == 40
    assert len(steps) == run["iterations"]
    assert {step["scene"] for step in steps} <= {"decode", "prefill", "mixed"}


def test_compare_and_goodput_write_rows_and_remember_runs(tmp_path: Path) -> None:
    shared = [*QUICK, "--seeds", "1", "--workers", "1", "--cache", str(tmp_path / "runs")]
    policies = ["--policy", "fcfs", "--policy", "slidingserve_paper:alpha=0.6"]
    code, out, _ = ran(
        "compare", *shared, *policies, "--qps", "2", "--qps", "4", "--output", str(tmp_path / "c.json"),
        "--csv", str(tmp_path / "c.csv"),
    )  # fmt: skip
    assert code == 0, out
    rows = json.loads((tmp_path / "c.json").read_text())["rows"]
    assert [(row["policy"], row["qps"]) for row in rows] == [
        (policy, qps) for qps in (2.0, 4.0) for policy in ("fcfs", "slidingserve_paper:alpha=0.6")
    ]
    assert rows[0]["fewer_violations_percent"] == 0.0
    code, out, _ = ran(
        "goodput",
        *shared,
        *policies,
        "--tolerance",
        "0.5",
        "--start",
        "4",
        "--output",
        str(tmp_path / "g.json"),
    )
    assert code == 0, out
    found = json.loads((tmp_path / "g.json").read_text())["rows"]
    assert all(row["goodput_qps"] < row["fails_at_qps"] for row in found)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["simulate", "--qps", "0"], "qps 0.0"),
        (["simulate"], "qps: Poisson arrivals need a rate"),
        (["simulate", "--qps", "1", "--policy", "best"], "policy: 'best' is unknown"),
        (["simulate", "--qps", "1", "--policy", "fcfs:budget"], "write NAME:KEY=VALUE"),
        (["simulate", "--qps", "1", "--policy", "fcfs:depth=3"], "'depth' is no setting"),
        (["simulate", "--qps", "1", "--policy", "fcfs:budget=0"], "budget '0'"),
        (["simulate", "--qps", "1", "--policy", "slidingserve_paper:method=magic"], "method 'magic'"),
        (["simulate", "--qps", "1", "--hardware", "abacus"], "hardware profile 'abacus' is unknown"),
        (["simulate", "--qps", "1", "--workload", "nothing"], "--workload 'nothing'"),
        (["simulate", "--qps", "1", "--kv-tokens", "640"], "do not fit the KV cache"),
        (["simulate", "--qps", "1", "--output", "/nowhere/at/all.json"], "cannot be written"),
        (["simulate", "--qps", "1", "--noise", "-1"], "noise"),
        (["goodput", "--criterion", "some"], "--criterion 'some'"),
        (["goodput", "--seeds", "0"], "--seeds 0"),
        (["goodput", "--tolerance", "0"], "tolerance: 0"),
        (["goodput", "--start", "0"], "--start 0"),
        (["compare", "--qps", "-1"], "qps -1"),
        (["compare", "--qps", "1", "--workers", "0"], "--workers 0"),
        (["compare", "--qps", "1", "--seeds", "1000000000000"], "--seeds 1000000000000"),
        (["compare", "--qps", "1", "--seed", "9999999999999999999999"], "seed 9999999999999999999999"),
        (["goodput", "--tolerance", "1e-300"], "tolerance: 1e-300"),
        (["simulate", "--qps", "1", "--seed", "9999999999999999999999"], "seed 9999999999999999999999"),
        (["simulate", "--qps", "1", "--max-tokens", "99999999999"], "max_tokens: 99999999999 is too large"),
        (["simulate", "--qps", "1", "--max-requests", "99999999999"], "max_requests: 99999999999 is too"),
        (["simulate", "--qps", "1", "--kv-tokens", "99999999999999"], "kv_tokens: 99999999999999 is too"),
        (["simulate", "--qps", "1", "--workload", "a" * 5000], "is neither a file nor one of"),
        (
            ["simulate", "--qps", "1", "--requests", "9", "--output", "/dev/full"],
            "/dev/full: cannot be",
        ),
        (["simulate", "--qps", "1", "--requests", "9", "--csv", "/dev/full"], "/dev/full: cannot be"),
        (["simulate", "--qps", "1", "--slo", "dialogue=1e308x/40"], "ttft_slowdown 1e+308"),
        (["simulate", "--qps", "1", "--serving-overhead", "1e300"], "--serving-overhead 1e+300"),
        (["simulate", "--qps", "1", "--serving-overhead", "-5"], "--serving-overhead -5: give 0 to"),
        (["simulate", "--qps", "1", "--workload", ""], "--workload ''"),
        (["simulate", "--qps", "1", "--workload", "/"], "/: is a directory"),
        (["simulate", "--qps", "nan"], "qps nan: must be above 0"),
        (["simulate", "--qps", "inf"], "qps inf: must be above 0"),
        (
            ["simulate", "--qps", "1", "--requests", "100000000000"],
            "requests 100000000000: must be 1 or more",
        ),
        (["compare", "--qps", "1", "--csv", "/"], "/: cannot be written"),
        (["goodput", "--csv", "same", "--output", "./same"], "is asked for twice"),
        (["goodput", "--output", "/"], "/: cannot be written"),
        (["simulate", "--qps", "1e-6", "--requests", "2000"], "its arrivals span"),
        (["simulate", "--qps", "1", "--policy", "fcfs:budget=1,budget=2"], "budget is there twice"),
        (["simulate", "--qps", "1", "--policy", "fcfs:min_chunk=99999999999999999999"], "min_chunk '9999"),
        (["simulate", "--qps", "1", "--policy", "fcfs:max_chunk=99999999999999999999"], "max_chunk '9999"),
        (["simulate", "--qps", "1", "--policy", "fcfs:min_chunk=64,max_chunk=16"], "max_chunk 16 is below"),
        (["simulate", "--qps", "1", "--policy", "fcfs:refresh_seconds=1e-300"], "refresh: 1e-300 s is no"),
        (["simulate", "--qps", "1", "--policy", "fcfs:samples=1000000000"], "1000000000 are too many"),
        (
            ["simulate", "--qps", "1", "--policy", "fcfs:samples=0"],
            "samples=0': predictor samples: 0 are too",
        ),
        (["simulate", "--qps", "1", "--policy", "fcfs:fit_seed=-1"], "fit_seed -1"),
        (["simulate", "--qps", "1", "--policy", "fcfs:expert_samples=0"], "expert_samples: 0"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_status_2(args: list[str], words: str) -> None:
    code, _, err = ran(*args)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


def test_a_cache_that_fills_up_while_it_runs_is_one_line_and_exit_status_2(tmp_path: Path) -> None:
    kept = Store(tmp_path)
    file = next(tmp_path.iterdir())
    file.unlink()
    file.symlink_to("/dev/full")
    with pytest.raises(SimError, match=r"cannot be written \(No space left on device\); name another"):
        kept.put("key", {})


def test_requests_that_all_come_at_once_have_the_rate_null_in_json(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("arrival,prompt_tokens,output_tokens\n" + "5,100,3\n" * 4)
    code, out, _ = ran("simulate", "--workload", str(rows), "--output", str(tmp_path / "o.json"))
    assert code == 0
    assert "inf" not in out
    assert json.loads((tmp_path / "o.json").read_text(), parse_constant=str)["qps"] is None


def test_a_pause_of_thirty_years_takes_no_longer_than_one_of_a_minute(tmp_path: Path) -> None:
    counts = []
    for pause in (60, 1_000_000_000):
        rows, out = tmp_path / "rows.csv", tmp_path / "o.json"
        rows.write_text(f"arrival,prompt_tokens,output_tokens\n0,100,3\n{pause},100,3\n")
        begin = time.monotonic()
        code, _, _ = ran("simulate", "--workload", str(rows), "--output", str(out))
        assert (code, time.monotonic() - begin < 60) == (0, True)
        counts.append(json.loads(out.read_text())["iterations"])
    assert counts == [6, 6]


@pytest.mark.parametrize("name", [field.name for field in fields(PolicySettings)])
def test_every_setting_of_a_policy_can_be_given_by_its_name(name: str) -> None:
    default = getattr(PolicySettings(), name)
    chosen = engine_of(f"slidingserve_paper:{name}={'off' if default is None else default}", engine())
    assert getattr(chosen.settings, name) == default


def test_what_happens_above_capacity_is_chosen_by_name() -> None:
    assert engine_of("slidingserve_paper:overload=relegate", engine()).settings.overload == "relegate"
    with pytest.raises(SimError, match="overload 'reject'"):
        engine_of("slidingserve_paper:overload=reject", engine())


def test_settings_of_policy_and_predictor_are_read_from_the_text() -> None:
    config = engine_of(
        "slidingserve_paper:alpha=0.5,constructor=false,max_chunk=none,refresh_seconds=off,fit_seed=3",
        engine(),
    )
    assert config.settings.alpha == 0.5
    assert config.settings.constructor is False
    assert config.settings.max_chunk is None
    assert config.predictor.refresh_seconds is None
    assert config.predictor.fit_seed == 3
    with pytest.raises(SimError, match="samples: 2 are too few"):
        engine_of("fcfs:samples=2", engine())


def test_an_interrupted_search_says_how_to_go_on_and_does(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = [
        *(sys.executable, "-m", "slidingserve.cli", "goodput", "--policy", "fcfs", "--requests", "200"),
        *("--seeds", "2", "--tolerance", "0.05", "--cache", str(runs)),
    ]
    search = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + 300
    while not any(file.stat().st_size for file in runs.glob("*.jsonl")):
        assert search.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)
    search.send_signal(signal.SIGINT)
    _, err = search.communicate(timeout=120)
    assert search.returncode == 130
    assert f"finished runs are in {runs}; the same command goes on from there" in err
    assert "Traceback" not in err
    kept = next(runs.glob("*.jsonl")).read_text().splitlines()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = next(runs.glob("*.jsonl")).read_text().splitlines()
    assert lines[: len(kept)] == kept
    assert len(lines) == len({json.loads(line)["key"] for line in lines}) > len(kept)


def test_every_command_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("slidingserve ")]
    assert {line.split()[1] for line in lines} == {"simulate", "goodput", "compare"}
    monkeypatch.chdir(tmp_path)
    for line in lines:
        small = ["--requests", "20"]
        if " simulate " not in line:
            small += ["--seeds", "1", "--workers", "1", "--cache", str(tmp_path)]
        if " goodput " in line:
            small += ["--tolerance", "0.5"]
        code, _, err = ran(*line.split()[1:], *small)
        assert code == 0, f"{line}: {err}"


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "--qps", "2"],
        ["compare", "--qps", "2", "--policy", "fcfs"],
        ["goodput", "--policy", "fcfs", "--start", "2", "--tolerance", "0.5"],
    ],
)
def test_each_command_says_which_rows_of_a_file_it_leaves_out(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("prompt_tokens,output_tokens\n" + "20,3\n" * 5 + "many,3\n")
    code, _, err = ran(*command, "--workload", str(file))
    assert code == 0, err
    assert "line 7" in err
