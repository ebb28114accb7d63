from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from slidingserve import workloads
from slidingserve.workloads import Reading, WorkloadError
from slidingserve.workloads.arrivals import Switching

HEADER = "arrival,prompt_tokens,output_tokens,slo_class\n"


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_csv_is_read_with_its_classes_times_and_lengths(tmp_path: Path) -> None:
    path = written(
        tmp_path, "t.csv", HEADER + "3.5,100,20,dialogue\n4.5,3000,10,summarization\n6,10,1,chat\n"
    )
    trace, report = workloads.load(path)
    np.testing.assert_allclose(trace.arrival, [0.0, 1.0, 2.5])
    assert trace.prompt_tokens.tolist() == [100, 3000, 10]
    assert trace.output_tokens.tolist() == [20, 10, 1]
    assert trace.classes() == ["dialogue", "summarization", "chat"]
    assert (report.rows, report.kept, report.bad) == (3, 3, [])


def test_an_azure_csv_keeps_its_seven_digits_under_a_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "azure.csv",
        b"\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        b"2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319601,374,44\r\n",
    )
    trace, _ = workloads.load(path)
    np.testing.assert_allclose(trace.arrival, [0.0, 0.0520001], rtol=0, atol=1e-12)
    assert trace.classes() == ["summarization", "dialogue"]


def test_dates_with_offsets_stand_on_one_time_axis(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "t.csv",
        HEADER + "2024-01-01T00:00:00Z,1,1,\n2024-01-01T02:00:01.5+02:00,1,1,\n2024-01-01 00:00:03,1,1,\n",
    )
    np.testing.assert_allclose(workloads.load(path)[0].arrival, [0.0, 1.5, 3.0])


def test_burstgpt_columns_are_known_and_its_failures_are_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "burst.csv",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,2087,0,2087,API log\n",
    )
    trace, report = workloads.load(path)
    assert trace.arrival.tolist() == [0.0, 40.0]
    assert trace.output_tokens.tolist() == [18, 1]
    assert report.zero_output == 1
    assert any("0 output tokens, taken as 1" in line for line in report.lines())
    dropped, left = workloads.load(path, reading=Reading(zero_output="drop"))
    assert len(dropped) == 1
    assert str(left.bad[0]) == "line 3: output_tokens: 0"
    with pytest.raises(WorkloadError, match="line 3: output_tokens: 0"):
        workloads.load(path, reading=Reading(zero_output="refuse"))


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "when_ms,in,out,kind\n1000,5,6,a\n3000,7,8,b\n")
    names = {"arrival": "when_ms", "prompt_tokens": "in", "output_tokens": "OUT", "slo_class": "kind"}
    trace, report = workloads.load(path, columns=names)
    assert trace.arrival.tolist() == [0.0, 2.0], "the name ends in _ms"
    assert trace.classes() == ["a", "b"]
    assert report.columns["output_tokens"] == "out"
    with pytest.raises(WorkloadError, match="no column 'gone' for prompt_tokens; it has 'when_ms', 'in'"):
        workloads.load(path, columns={**names, "prompt_tokens": "gone"})
    with pytest.raises(WorkloadError, match="'size' is none of"):
        workloads.load(path, columns={"size": "in"})


@pytest.mark.parametrize(
    ("name", "unit", "seconds"),
    [("arrival", None, 5.0), ("arrival_time_ns", None, 5e-9), ("timestamp", "us", 5e-6)],
)
def test_times_have_the_unit_that_is_given_or_in_the_name(
    tmp_path: Path, name: str, unit: str | None, seconds: float
) -> None:
    path = written(tmp_path, "t.csv", f"{name},prompt_len,output_len\n10,1,1\n15,1,1\n")
    trace, _ = workloads.load(path, reading=Reading(time_unit=unit))
    np.testing.assert_allclose(trace.arrival, [0.0, seconds], rtol=1e-12)


def test_unsorted_times_are_sorted_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", HEADER + "9,1,1,a\n4,2,1,a\n6,3,1,a\n4,4,1,a\n")
    trace, report = workloads.load(path)
    assert trace.arrival.tolist() == [0.0, 0.0, 2.0, 5.0]
    assert trace.prompt_tokens.tolist() == [2, 4, 3, 1], "those of one time stay as they stood"
    assert report.unsorted == 2


def test_rows_that_cannot_be_used_are_reported_by_line_and_counted(tmp_path: Path) -> None:
    rows = [
        "0,5,5,a",
        "1,,5,a",  # line 3
        "2,5,,a",
        "3,many,5,a",
        "4,5",
        "5,5.5,5,a",
        ",5,5,a",
        "7,5,5,a b",
        "8,0,5,a",
        "9,5,5,a,extra",
        "nan,5,5,a",
        "2024-01-01 00:00:00,5,5,a",
        "",
        "12,7.0,5,a",
    ]
    path = written(tmp_path, "t.csv", HEADER + "\n".join(rows) + "\n")
    trace, report = workloads.load(path)
    assert trace.prompt_tokens.tolist() == [5, 7]
    assert sorted(int(row.place.split()[1]) for row in report.bad) == list(range(3, 14))
    assert report.rows == report.kept + len(report.bad)
    lines = report.lines()
    assert f"{path}: 11 rows left out" in lines
    assert any("line 3: prompt_tokens: missing" in line for line in lines)
    assert lines[-1].endswith("and 6 more")
    with pytest.raises(WorkloadError, match="line"):
        workloads.load(path, reading=Reading(strict=True))


def test_missing_output_lengths_can_be_given_a_value(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "arrival,prompt_tokens\n0,5\n1,6\n")
    with pytest.raises(WorkloadError, match="no column output_tokens"):
        workloads.load(path)
    trace, report = workloads.load(path, reading=Reading(missing_output=128))
    assert trace.output_tokens.tolist() == [128, 128]
    assert report.missing_output == 2


def test_jsonl_of_mooncakes_form_brings_milliseconds_and_prefixes(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]},
        {"timestamp": 3000, "input_length": 1024, "output_length": 6, "hash_ids": [7, 10]},
    ]
    path = written(tmp_path, "m.jsonl", "\r\n".join(json.dumps(row) for row in rows) + "\r\n")
    trace, _ = workloads.load(path)
    assert trace.arrival.tolist() == [0.0, 3.0]
    assert trace.prefix_offsets.tolist() == [0, 2, 4], "the third block is not full"
    assert trace.prefix_ids[0] == trace.prefix_ids[2]
    assert len(set(trace.prefix_ids.tolist())) == 3


def test_sharegpt_gives_the_first_question_and_its_answer_with_estimated_lengths(tmp_path: Path) -> None:
    conversations = [
        {
            "id": "a",
            "conversations": [
                {"from": "system", "value": "be brief"},
                {"from": "human", "value": "one two three four"},
                {"from": "gpt", "value": "one two"},
                {"from": "human", "value": "more"},
            ],
        },
        {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
        {"id": "c", "conversations": [{"from": "gpt", "value": "answer first"}]},
        {"id": "d", "conversations": "text"},
        {
            "id": "e",
            "conversations": [{"role": "user", "content": "你好吗"}, {"role": "assistant", "content": "好"}],
        },
    ]
    path = written(tmp_path, "s.json", json.dumps(conversations))
    with pytest.raises(WorkloadError, match="qps"):
        workloads.load(path)
    trace, report = workloads.load(path, qps=2.0, reading=Reading(tokens_per_word=1.5))
    assert trace.prompt_tokens.tolist() == [9, 5]
    assert trace.output_tokens.tolist() == [3, 2]
    assert [row.place for row in report.bad] == ["entry 2", "entry 3", "entry 4"]
    assert report.estimated == 2
    exact, _ = workloads.load(path, qps=2.0, reading=Reading(tokenizer=len))
    assert exact.output_tokens.tolist() == [7, 1]


def test_a_json_array_and_json_lines_under_the_name_json_are_read_alike(tmp_path: Path) -> None:
    rows = [{"arrival": i, "prompt_tokens": 3, "output_tokens": 2} for i in range(3)]
    array = written(tmp_path, "a.json", json.dumps(rows, indent=1))
    lines = written(tmp_path, "b.json", "\n".join(json.dumps(row) for row in rows))
    unnamed = written(tmp_path, "c", "\n".join(json.dumps(row) for row in rows))
    digests = {workloads.load(path)[0].digest() for path in (array, lines, unnamed)}
    assert len(digests) == 1


def test_a_heading_that_is_there_twice_is_no_trouble_where_nothing_is_read_from_it(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "note,prompt_tokens,output_tokens,note,,,arrival\na,3,2,b,,,1\n")
    assert workloads.load(path)[1].kept == 1


def test_semicolons_and_tabs_separate_as_well(tmp_path: Path) -> None:
    for delimiter in ";\t":
        content = "arrival,prompt_tokens,output_tokens\n0,3,2\n".replace(",", delimiter)
        assert len(workloads.load(written(tmp_path, "t.csv", content))[0]) == 1


def test_arrivals_of_a_file_can_be_its_own_stretched_poisson_or_switching(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", HEADER + "".join(f"{i * i},5,5,a\n" for i in range(50)))
    stretched, _ = workloads.load(path, qps=2.0)
    assert stretched.arrival[-1] == pytest.approx(49 / 2.0)
    poisson, _ = workloads.load(path, qps=2.0, arrivals="poisson", seed=5)
    other, _ = workloads.load(path, qps=2.0, arrivals="poisson", seed=6)
    assert poisson.digest() != other.digest()
    few, _ = workloads.load(path, arrivals="switching", switch=Switching(1.0, 2.0, 5.0, 10.0))
    assert 3 < len(few) < 40
    assert few.arrival[-1] < 10
    all_of_them, _ = workloads.load(path, arrivals="switching", requests=50)
    assert len(all_of_them) == 50
    first, _ = workloads.load(path, requests=10)
    assert first.arrival.tolist() == [float(i * i) for i in range(10)]
    with pytest.raises(WorkloadError, match="holds 50"):
        workloads.load(path, requests=51)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "", "t.csv: is empty"),
        ("t.csv", " \r\n\r\n", "t.csv: is empty"),
        ("t.csv", HEADER, "holds no requests"),
        ("t.csv", HEADER + "0,-5,5,a\n", r"t.csv, line 2: prompt_tokens: -5 is negative"),
        ("t.csv", HEADER + "0,5,5,a\n1,5,-1,a\n", r"t.csv, line 3: output_tokens: -1 is negative"),
        ("t.csv", HEADER + "-3,5,5,a\n", r"t.csv, line 2: arrival: -3 is negative"),
        ("t.csv", "0,5,5\n1,5,5\n", "no column prompt_tokens.*--column prompt_tokens=NAME; it has '0', '5'"),
        ("t.csv", "arrival,prompt_tokens\n0,5\n", "no column output_tokens"),
        ("t.csv", b"arrival,prompt_tokens\n0,\xff\n", r"t.csv, line 2: byte 0xff is not UTF-8; save"),
        ("t.csv", HEADER + "x,5,5,a\n", r"line 2: arrival: 'x' is no number"),
        ("t.jsonl", "nonsense", "line 1: not JSON"),
        ("t.jsonl", "[1]", "line 1: is list"),
        ("t.json", "[1", "t.json, line 1: not JSON"),
        ("t.json", "3", "is int"),
        ("t.json", "[" * 100_000, "not JSON: too deep"),
        ("t.jsonl", '{"a":' * 100_000, "not JSON"),
        ("t.csv", gzip.compress(HEADER.encode()), "is packed with gzip; unpack it first"),
        ("t.csv", b"PAR1\0", "is a Parquet file; write it as CSV or JSON lines"),
        (
            "t.csv",
            "arrival,prompt_tokens,output_tokens,prompt_tokens\n0,1,1,2\n",
            "the column 'prompt_tokens' twice",
        ),
        ("t.csv", HEADER + '0,5,5,a\n1,5,5,"a\n2,5,5,a\n', "line 3: a quotation mark is opened and never"),
        ("t.csv", HEADER + '0,5,5,"' + "a" * 200_000, "line 2: .*close a quotation mark"),
        (
            "t.jsonl",
            '{"prompt_tokens": 5, "prompt_tokens": 6, "output_tokens": 1}',
            "line 1: has the key 'prompt_tokens' twice",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: str | bytes, words: str
) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(WorkloadError, match=words) as caught:
        workloads.load(path, qps=1.0)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(WorkloadError, match="is a pipe or a device; write it to a file"):
            workloads.load(path)


@pytest.mark.parametrize(
    "bad", ['"prompt_tokens": 9e99', '"arrival": "' + "1" * 99_999 + '"', f'"prompt_tokens": {"9" * 4000}']
)
def test_a_value_of_any_length_is_told_in_a_short_line(bad: str, tmp_path: Path) -> None:
    good = '{"arrival": 0, "prompt_tokens": 5, "output_tokens": 1}'
    rows = '{"arrival": 0, "prompt_tokens": 5, "output_tokens": 1, ' + bad + "}"
    name = bad.split('"')[1]
    rows = rows.replace({"arrival": '"arrival": 0, ', "prompt_tokens": '"prompt_tokens": 5, '}[name], "", 1)
    _, report = workloads.load(written(tmp_path, "t.jsonl", f"{good}\n{rows}\n"))
    assert len(report.bad) == 1
    assert report.bad[0].reason.startswith(f"{name}: ")
    assert max(map(len, report.lines())) < 200 + len(str(tmp_path))


def test_a_text_that_no_request_can_carry_is_left_out(tmp_path: Path) -> None:
    rows = [{"arrival": 0, "prompt": text, "output_tokens": 1} for text in ("a b", "\ud800")]
    _, report = workloads.load(written(tmp_path, "t.jsonl", "\n".join(map(json.dumps, rows))))
    assert [str(row) for row in report.bad] == [
        "line 2: prompt: holds half a character, which nothing can send"
    ]


def test_a_directory_and_an_absent_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="is a directory; name a file"):
        workloads.load(tmp_path)
    with pytest.raises(WorkloadError, match=r"absent\.csv: cannot be read: No such file"):
        workloads.load(tmp_path / "absent.csv")
    with pytest.raises(WorkloadError, match="cannot be read"):
        workloads.load("a\0b.csv")


@pytest.mark.parametrize(
    "options",
    [
        {"time_unit": "h"},
        {"tokens_per_word": 0.0},
        {"tokens_per_word": float("nan")},
        {"missing_output": 0},
        {"default_class": "a b"},
        {"prefix_block": 0},
    ],
)
def test_a_reading_that_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(WorkloadError):
        Reading(**options)  # type: ignore[arg-type]
