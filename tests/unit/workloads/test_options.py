from __future__ import annotations

from pathlib import Path

import pytest
from slidingserve.workloads import WorkloadError
from slidingserve.workloads.arrivals import Switching
from slidingserve.workloads.options import FileOptions, arrivals_of, opened, slo_of, slos
from slidingserve.workloads.slo import PAPER, Slo


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("chat=5x/40", Slo(ttft_slowdown=5.0, tbt_seconds=0.04)),
        ("chat=2.5X/40ms", Slo(ttft_slowdown=2.5, tbt_seconds=0.04)),
        ("chat=0.5s/0.08s", Slo(ttft_seconds=0.5, tbt_seconds=0.08)),
        ("chat=500ms/80", Slo(ttft_seconds=0.5, tbt_seconds=0.08)),
        ("chat=500ms/80ms", Slo(ttft_seconds=0.5, tbt_seconds=0.08)),
    ],
)
def test_a_promise_is_a_slowdown_or_a_time(text: str, slo: Slo) -> None:
    assert slo_of(text) == ("chat", slo)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "chat",
        "chat=5x",
        "chat=5x/",
        "=5x/40",
        "a b=5x/40",
        "chat=x/40",
        "chat=0x/40",
        "chat=x/1",
        "chat=0ms/1",
        "chat=1ms/nan",
        "chat=1ms/2/3",
    ],
)
def test_what_is_no_promise_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"--slo.*dialogue=5x/40"):
        slo_of(text)


@pytest.mark.parametrize("text", ["chat=5/40ms", "chat=500/40", "chat= 5 / 40"])
def test_a_ttft_without_a_unit_is_asked_for_one(text: str) -> None:
    # 5/40ms was once read as 5 ms, and kept nothing, where five times the solo time was meant.
    with pytest.raises(WorkloadError, match=r"TTFT '\d+' has no unit; write \d+x .* or \d+ms or \d+s"):
        slo_of(text)


def test_a_promise_as_it_is_printed_can_be_given_back() -> None:
    for slo in (Slo(ttft_slowdown=2.5), Slo(ttft_seconds=0.5, tbt_seconds=0.0805)):
        assert slo_of(f"chat={slo}") == ("chat", slo)


def test_promises_given_replace_or_join_the_papers() -> None:
    found = slos(["dialogue=500ms/50", "chat=3x/40"])
    assert found["summarization"] == PAPER["summarization"]
    assert found["dialogue"] == Slo(ttft_seconds=0.5, tbt_seconds=0.05)
    assert set(found) == {"dialogue", "summarization", "chat"}


def test_arrivals_are_named_and_switching_takes_its_plan() -> None:
    assert arrivals_of(None) == (None, None)
    assert arrivals_of("poisson") == ("poisson", None)
    assert arrivals_of("switching") == ("switching", None)
    assert arrivals_of("switching:1/3") == ("switching", Switching(1.0, 3.0))
    assert arrivals_of("switching:1/3/60/600") == ("switching", Switching(1.0, 3.0, 60.0, 600.0))


@pytest.mark.parametrize(
    "text", ["", "burst", "poisson:3", "switching:", "switching:1/2/3/4/5", "switching:0/1"]
)
def test_other_arrivals_are_refused(text: str) -> None:
    with pytest.raises(WorkloadError, match="--arrivals"):
        arrivals_of(text)


def test_names_take_dashes_and_2000_requests_unless_they_end_by_themselves() -> None:
    assert len(opened("mixed-v1", qps=1.0)[0]) == 2000
    assert len(opened("azure-code-2023")[0]) == 8819
    switching, report = opened("mixed_v1", arrivals="switching", seed=2)
    assert 1900 < len(switching) < 2300
    assert report is None


def test_a_file_brings_its_report(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,prompt_tokens,output_tokens\n0,1,1\n1,1,\n")
    trace, report = opened(str(path), reading=FileOptions(column=["arrival=when"]).reading())
    assert len(trace) == 1
    assert report is not None
    assert len(report.bad) == 1


def test_what_is_neither_a_name_nor_a_file_is_refused_with_the_names() -> None:
    with pytest.raises(WorkloadError, match=r"'mixd'.*neither a file nor one of sharegpt"):
        opened("mixd")


@pytest.mark.parametrize(
    ("columns", "zero"), [(["arrival"], "one"), (["size=x"], "one"), (["arrival="], "one"), ([], "two")]
)
def test_options_about_files_are_checked(columns: list[str], zero: str) -> None:
    with pytest.raises(WorkloadError, match=r"--column|--zero-output"):
        FileOptions(columns, zero_output=zero).reading()
