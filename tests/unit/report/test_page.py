"""The report: every picture, one page that needs nothing else, and the paper's numbers beside ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from slidingserve.cli import app as slidingserve
from slidingserve.report import paper, tables, text
from slidingserve.report.rows import Results
from typer.testing import CliRunner

from tests.unit.report.synthetic import document, row

PICTURES = (
    "figure4 figure4_per_class figure5 figure6 table4 table5 slo_base readings explain".split()  # noqa: SIM905
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "results.json").write_text(json.dumps(document()))
    (folder / "notes.md").write_text("# Noise\n\n- the **first**: `margin` < 1.3\n- second\n\nAnd text.")
    done = CliRunner().invoke(
        slidingserve,
        [
            "report",
            str(folder / "results.json"),
            "--out",
            str(folder / "out"),
            "--notes",
            str(folder / "notes.md"),
        ],
    )
    assert done.exit_code == 0, done.output
    return folder / "out"


def test_every_figure_and_table_is_a_png(report: Path) -> None:
    for name in PICTURES:
        assert (report / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name


def test_the_page_needs_no_other_file_and_no_network(report: Path) -> None:
    page = (report / "index.html").read_text()
    assert not re.search(r"https?://|src=\"(?!data:image/png;base64,)|<link|<script|url\(|@import", page)
    assert page.count("data:image/png;base64,") == 5, "four figures and the sensitivity; tables are text"


def test_every_caption_says_hardware_base_seeds_and_interval(report: Path) -> None:
    page = (report / "index.html").read_text()
    captions = dict(re.findall(r'<h2 id="(\w+)">.*?<p class="caption">(.*?)</p>', page, re.DOTALL))
    for name in ("figure4", "figure4_per_class", "figure6", "table4", "slo_base", "readings", "explain"):
        for needed in ("rtx3090-tp2-qwen2.5-7b", "60 ms serving overhead", "seeds 1, 2, 3", "t-interval"):
            assert needed in captions[name], (name, needed)
    assert "2,000 requests a run" in captions["figure5"]


def test_the_page_has_headline_notes_and_hardware(report: Path) -> None:
    page = (report / "index.html").read_text()
    assert page.index("ours | paper") < page.index("Figure 4")
    assert "<li>the <strong>first</strong>: <code>margin</code> &lt; 1.3</li>" in page
    assert "two RTX 3090, measured layers" in page


def test_long_tables_are_folded_and_the_predictor_by_scene_is_one(report: Path) -> None:
    page = (report / "index.html").read_text()
    folded = re.findall(r"<details><summary>Table</summary>.*?<caption>(.*?)</caption>", page, re.DOTALL)
    assert "Table 5: the batch latency predictor, by scene" in folded
    assert "Settings compared, goodput on the choosing seed" in folded


def test_same_rows_same_bytes(report: Path, tmp_path: Path) -> None:
    from slidingserve.report.page import write

    write(Results.model_validate(document()), tmp_path)
    assert (tmp_path / "figure6.png").read_bytes() == (report / "figure6.png").read_bytes()


def test_a_figure_without_rows_is_left_out_and_said(tmp_path: Path) -> None:
    made: dict[str, Any] = {"rows": [item for item in document()["rows"] if item["figure"] == "table4"]}
    (tmp_path / "r.json").write_text(json.dumps(made))
    done = CliRunner().invoke(
        slidingserve, ["report", str(tmp_path / "r.json"), "--out", str(tmp_path / "o")]
    )
    assert done.exit_code == 0
    for name in ("figure4", "figure5", "figure6", "table5"):
        assert f"{name}: left out" in done.output
        assert not (tmp_path / "o" / f"{name}.png").exists()
    assert "figure4, figure5, figure6, table5" in (tmp_path / "o" / "index.html").read_text()


def test_a_name_that_looks_like_a_formula_is_drawn_as_it_stands(tmp_path: Path) -> None:
    rows = [row("figure4", "$\\frac{$", "goodput_qps", 1.0), row("table4", "$_$", "goodput_qps", 1.0)]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}))
    done = CliRunner().invoke(
        slidingserve, ["report", str(tmp_path / "r.json"), "--out", str(tmp_path / "o")]
    )
    assert done.exit_code == 0
    assert "$\\frac{$" in (tmp_path / "o" / "index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.json"], "none.json"),
        (["bad.json"], "not JSON"),
        (["good.json", "--notes", "none.md"], "--notes none.md"),
        (["good.json", "--out", "good.json"], "--out good.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{")
    Path("good.json").write_text(json.dumps({"rows": [row("table4", "fcfs", "goodput_qps", 1.0)]}))
    done = CliRunner().invoke(slidingserve, ["report", *arguments])
    assert done.exit_code == 2
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_without_matplotlib_the_user_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slidingserve.report.command.find_spec", lambda name: None)
    (tmp_path / "r.json").write_text(json.dumps(document()))
    done = CliRunner().invoke(slidingserve, ["report", str(tmp_path / "r.json")])
    assert done.exit_code == 2
    assert "pip install 'slidingserve[report]'" in done.output


def test_headline_gains_are_those_of_the_paper_when_the_numbers_are() -> None:
    rows = [
        row("figure4", policy, "goodput_qps", value)
        for policy, value in zip(paper.COMPARED, paper.FIGURE_4[paper.QWEN, "mixed_v1"], strict=True)
    ]
    table = tables.headline(Results.model_validate({"rows": rows}).rows)
    assert table is not None
    (line,) = table.rows
    assert line[-2:] == ("+30 | +30 %", "+15 | +15 %")
    assert line[2] == "1.50 | 1.50"
    assert text.markdown(table).count("\n| ") == 3


def test_the_papers_claims_follow_from_the_numbers_kept_of_it() -> None:
    gains = [(b[2] / b[0] - 1, b[2] / b[1] - 1) for b in paper.FIGURE_4.values()]
    assert min(edf for edf, _ in gains) == pytest.approx(0.25, abs=0.005)
    assert max(edf for edf, _ in gains) == pytest.approx(1.11, abs=0.005)
    assert max(qoserve for _, qoserve in gains) == pytest.approx(0.30, abs=0.005)
    assert (
        paper.figure4(paper.QWEN, "mixed_v1", "slidingserve_paper") == paper.TABLE_4[paper.FULL].optimal_qps
    )
