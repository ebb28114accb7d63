"""What `compare` and `goodput` wrote is drawn as well as the paper's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slidingserve.cli import app
from slidingserve.report.rows import load
from slidingserve.report.tables import Table
from typer.testing import CliRunner

ABOUT = {"workload": "mixed_v1", "hardware": "rtx3090-tp2-llama3.1-8b", "seeds": [0, 1]}
POLICIES = ("fcfs", "qoserve:grid=rescaled", "slidingserve_paper")


def compared() -> dict[str, Any]:
    """As `compare --qps 1.5 --qps 2 --output` writes it, without what the report does not show."""
    return ABOUT | {
        "rows": [
            {
                "policy": policy, "qps": qps, "requests": 600, "base": "fcfs", "ttft_p50_s": 0.2 * qps,
                "ttft_p99_s": 3.0, "tbt_p99_s": 0.05, "violations_percent": 10 * qps / (1 + place),
                "violations_percent_low": 9 * qps / (1 + place),
                "violations_percent_high": 12 * qps / (1 + place), "fewer_violations_percent": 1.0 * place,
            }
            for qps in (1.5, 2.0)
            for place, policy in enumerate(POLICIES)
        ]
    }  # fmt: skip


def found() -> dict[str, Any]:
    return ABOUT | {
        "rows": [
            {"policy": policy, "goodput_qps": 1.0 + place, "fails_at_qps": None, "criterion": "overall"}
            for place, policy in enumerate(POLICIES)
        ]
    }


def report(folder: Path, document: dict[str, Any]) -> tuple[int, str]:
    path = folder / "result.json"
    path.write_text(json.dumps(document))
    done = CliRunner().invoke(app, ["report", str(path), "--out", str(folder / "out")])
    return done.exit_code, done.output


def test_a_comparison_is_drawn_with_its_policies_rates_and_intervals(tmp_path: Path) -> None:
    code, said = report(tmp_path, compared())
    assert code == 0, said
    assert "left out" not in said, "the paper's figures were not asked for"
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<td>qoserve:grid=rescaled</td><td>7.50 [6.75, 9.00]</td>" in page
    assert "policies compared" in page
    assert "paper's" not in page


def test_goodputs_are_drawn_a_bar_a_policy(tmp_path: Path) -> None:
    code, said = report(tmp_path, found())
    assert code == 0, said
    assert (tmp_path / "out" / "goodput.png").exists()
    assert (
        "<td>slidingserve_paper</td><td>overall</td><td>3</td>"
        in (tmp_path / "out" / "index.html").read_text()
    )


def test_a_broken_comparison_is_refused_by_row_and_field(tmp_path: Path) -> None:
    document = compared()
    document["rows"][0]["violations_percent"] = "many"
    code, said = report(tmp_path, document)
    assert code == 2
    assert 'rows[0].value: "many"' in said


def test_its_table_has_every_policy_at_every_rate(tmp_path: Path) -> None:
    from slidingserve.report import compared as drawn

    path = tmp_path / "result.json"
    path.write_text(json.dumps(compared()))
    made = drawn.misses(load(path).rows)
    assert made is not None
    assert isinstance(made[1], Table)
    assert [line[:2] for line in made[1].rows] == [
        (rate, policy) for rate in ("1.5", "2") for policy in POLICIES
    ]
