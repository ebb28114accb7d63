"""Other shapes of an engine, each a start of its own: slow, so they run in the soak."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.served import Served, start, wait, write_config

pytestmark = pytest.mark.soak


def requests_of(engine: Served) -> int:
    found: int = engine.state()["classes"]["dialogue"]["requests"]
    return found


def test_tensor_parallel_2_with_two_api_servers(tiny_model: Path, tmp_path: Path) -> None:
    engine = start(tiny_model, tmp_path, "--tensor-parallel-size", "2", "--api-server-count", "2")
    try:
        processes = [(p["role"], p["index"]) for p in engine.state()["processes"]]
        assert processes == [("api", 0), ("api", 1), ("core", 0)]
        for number in range(12):
            assert engine.complete(f"hello {number}").status_code == 200
        # Whichever API server answers, it knows the counts of both, each other's within its next report.
        wait(lambda: requests_of(engine) == 12, "both API servers' counts are in the state")
        assert engine.metric("requests_total", slo_class="dialogue") == 12
        document = write_config(engine.config_dir, alpha=0.25)
        wait(
            lambda: engine.state()["applied"]["generation"] == document["generation"],
            "all three took it",
            10.0,
        )
        assert engine.metric("plans_total", branch="chunker") > 0
        assert engine.metric("planner_errors_total") == 0
    finally:
        engine.stop()


def test_a_second_start_finds_its_profile_and_calibrates_no_more(tiny_model: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        directory = tmp_path / str(number)
        directory.mkdir()
        engine = start(tiny_model, directory, "--profile-dir", str(tmp_path / "profiles"))
        log = engine.log.read_text()
        calibrated = engine.state()["predictor"]["calibrated"]
        engine.stop()
        assert calibrated
        assert ("calibrating with" in log) == (number == 1)
