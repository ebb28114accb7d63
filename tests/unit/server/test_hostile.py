"""Settings files that nobody should write, at the component that reads them live."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slidingserve.config import MAX_GENERATION, ConfigError, EngineConfig, builtin, loads
from slidingserve.server import frontend, routes
from slidingserve.server import state as files
from slidingserve.server.launch import LaunchError, _check_config
from slidingserve.server.live import LiveConfig

from tests.hostile import GOOD, hostile

LIMIT = 2048


def _read_at(directory: Path, content: bytes | None) -> LiveConfig:
    if content is not None:
        (directory / "slidingserve.json").write_bytes(content)
    return LiveConfig(directory, LIMIT, role="api", poll_seconds=30)


def _strict(answer: str | bytes) -> Any:
    """As a parser that knows no NaN and no half characters reads it."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    document = json.loads(answer, parse_constant=refuse)
    json.dumps(document, ensure_ascii=False).encode()
    return document


def _state(live: LiveConfig) -> Any:
    """The state endpoint's body, with this process alone."""
    own = files.stamped("api", 0, live.view.to_json())
    merged = files.merge([own], {"api": 1}, "0.32.0", "")
    return _strict(json.dumps(files.plain(merged)))


@pytest.mark.parametrize("part", range(4))
def test_a_hostile_file_leaves_the_last_good_one_and_a_sentence_and_the_state_answers(
    tmp_path: Path, part: int
) -> None:
    live = _read_at(tmp_path, json.dumps(GOOD).encode())
    refused = 0
    for number in range(part * 15, part * 15 + 15):
        before = live.view.config
        (tmp_path / "slidingserve.json").write_bytes(hostile(number))
        live.read()
        rejected = live.view.rejected
        if rejected is not None:
            refused += 1
            assert live.view.config is before, number
            assert 10 < len(rejected.message) < 2000, number
            assert "Traceback" not in rejected.message
            assert rejected.message.isprintable(), number
        assert _state(live)["schemaVersion"] == 1
    (tmp_path / "slidingserve.json").write_text(json.dumps({**GOOD, "generation": 9}))
    live.read()
    assert (live.view.config.generation, live.view.rejected) == (9, None)
    assert refused > 5


def test_a_start_with_a_hostile_file_serves_or_ends_with_one_line(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / "slidingserve.json").write_bytes(hostile(number))
        try:
            _check_config(tmp_path)
        except LaunchError as error:
            told = str(error)
            assert told.startswith("--slo-config "), number
            assert told.isprintable(), number


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "other"]), JSON))
@settings(max_examples=60, deadline=None)
def test_whatever_is_taken_can_be_written_for_every_reader(changes: dict[str, Any]) -> None:
    try:
        config: EngineConfig = loads(json.dumps({**GOOD, **changes}))
    except ConfigError as error:
        assert str(error)  # noqa: PT017 - any sentence will do
        return
    json.dumps(config.model_dump(mode="json", by_alias=True), allow_nan=False)
    assert float(config.generation) == config.generation


@pytest.mark.parametrize(
    ("generation", "taken"), [(MAX_GENERATION, True), (2**53, False), (2**64, False), (-1, False)]
)
def test_a_generation_is_one_that_every_reader_holds_exactly(
    tmp_path: Path, generation: int, taken: bool
) -> None:
    live = _read_at(tmp_path, json.dumps(GOOD).encode())
    (tmp_path / "slidingserve.json").write_text(json.dumps({**GOOD, "generation": generation}))
    live.read()
    assert (live.view.config.generation == generation) == taken
    if not taken:
        assert live.view.rejected is not None
        assert live.view.rejected.message.startswith(f"generation: {generation} should be ")
        assert live.view.rejected.generation == 0


def test_a_number_of_400_digits_is_refused_by_its_field() -> None:
    with pytest.raises(ConfigError, match=r"^generation: "):
        loads(json.dumps(GOOD).replace('"generation": 3', '"generation": ' + "9" * 400))


@pytest.mark.parametrize("revision", ["\\ud800", "\\u0000", "x" * 65])
def test_a_revision_that_could_not_be_taken_is_not_repeated_in_the_state(
    tmp_path: Path, revision: str
) -> None:
    text = json.dumps({**GOOD, "schemaVersion": 2}).replace("aaaaaaaaaaaa", revision)
    live = _read_at(tmp_path, json.dumps(GOOD).encode())
    (tmp_path / "slidingserve.json").write_text(text)
    live.read()
    assert _state(live)["rejected"]["revision"] == ""
    assert _state(live)["applied"] == {"revision": "aaaaaaaaaaaa", "generation": 3}


def test_a_key_that_is_there_twice_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match='key "defaultClass" is there twice'):
        loads(json.dumps(GOOD)[:-1] + ', "defaultClass": "slow"}')


@pytest.mark.parametrize("kind", ["directory", "pipe", "endless"])
def test_what_is_no_file_is_refused_at_once_with_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "slidingserve.json"
    live = _read_at(tmp_path, json.dumps(GOOD).encode())
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    live.read()
    assert live.view.rejected is not None
    assert "it cannot be read" in live.view.rejected.message
    assert live.view.config.generation == 3
    with pytest.raises(LaunchError, match="it cannot be read"):
        _check_config(tmp_path)


DAMAGED: list[dict[str, Any]] = [{"index": "0"}, {"generation": None}, {"revision": 7}, {"index": True}]


def test_a_damaged_report_of_another_process_counts_as_none(tmp_path: Path) -> None:
    good = {"role": "core", "index": 0, "revision": "a", "generation": 1}
    for number, change in enumerate(DAMAGED):
        (tmp_path / f"core-{number}.json").write_text(json.dumps({**good, **change}))
    (tmp_path / "core-deep.json").write_text("[" * 100_000)
    assert files.read_all(tmp_path) == []


async def test_the_state_is_json_for_any_parser_whatever_a_process_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Front:
        def state(self) -> Any:
            return {"alpha": float("nan"), "unknownKeys": ["\ud800"], "deep": [{"x": float("inf")}]}

    monkeypatch.setattr(frontend, "_current", Front())
    answer = await routes.get_state()
    assert answer.status_code == 200
    assert _strict(bytes(answer.body)) == {"alpha": None, "unknownKeys": ["?"], "deep": [{"x": None}]}


FIELDS = [
    "now",
    "max_tokens",
    "max_admissions",
    "free_kv_tokens",
    "throughput",
    "requests",
    "id",
    "phase",
    "arrival",
]
FIELDS += ["prefill_tokens", "computed_tokens", "output_tokens", "ttft_limit", "tbt_limit", "other"]
ROW = {
    "id": "a",
    "phase": "waiting",
    "arrival": 9.5,
    "prefill_tokens": 90,
    "ttft_limit": 2,
    "tbt_limit": 0.04,
}


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3), st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_snapshot_gives_a_plan_that_is_json_or_one_sentence(
    changes: dict[str, Any], inside: bool
) -> None:
    rows = [{**ROW, **changes}] if inside else [ROW]
    document = {"now": 10, "max_tokens": 256, "requests": rows, **({} if inside else changes)}
    try:
        plan = routes.plan_of(document, builtin(), None)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - any sentence will do
        return
    _strict(json.dumps(files.plain(plan)))
