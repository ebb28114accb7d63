"""The live configuration on a directory that changes as a mounted ConfigMap does."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from slidingserve.config import builtin
from slidingserve.server.live import LiveConfig

from tests.unit.server.conftest import DOCUMENT

LIMIT = 2048


class ConfigMap:
    """A mounted ConfigMap: the file is a link through `..data`, and a change swaps that link."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = 0

    def write(self, document: dict[str, Any] | str) -> None:
        text = document if isinstance(document, str) else json.dumps(document)
        old = self.directory / f"..v{self.version}"
        self.version += 1
        new = self.directory / f"..v{self.version}"
        new.mkdir()
        (new / "slidingserve.json").write_text(text)
        link = self.directory / "..data_tmp"
        link.symlink_to(new.name)
        link.replace(self.directory / "..data")
        visible = self.directory / "slidingserve.json"
        if not visible.is_symlink():
            visible.symlink_to("..data/slidingserve.json")
        if old.exists():
            shutil.rmtree(old)


@pytest.fixture
def config_map(tmp_path: Path) -> ConfigMap:
    made = ConfigMap(tmp_path)
    made.write(DOCUMENT)
    return made


@pytest.fixture
def live(config_map: ConfigMap) -> Iterator[LiveConfig]:
    made = LiveConfig(config_map.directory, LIMIT, role="api", poll_seconds=30)
    made.start()
    yield made
    made.stop()


def wait(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def watching(config_map: ConfigMap, live: LiveConfig) -> None:
    """Return once the watcher sees changes: it starts in its own time, and the poll, 30 s here, must not
    help."""
    for generation in range(4, 14):
        config_map.write(changed(generation=generation))
        if wait(lambda: live.view.config.generation == generation, 0.5):  # noqa: B023 - called at once
            return
    raise AssertionError("the watcher saw none of ten changes")


def changed(**values: Any) -> dict[str, Any]:
    return {**DOCUMENT, "generation": 4, "revision": "bbbbbbbbbbbb", **values}


def test_without_a_directory_the_built_in_defaults_hold() -> None:
    view = LiveConfig(None, LIMIT, role="api").view
    assert [slo.name for slo in view.config.classes] == ["default"]


def test_a_swapped_link_is_in_force_within_seconds(config_map: ConfigMap, live: LiveConfig) -> None:
    before = live.view
    watching(config_map, live)
    config_map.write(changed(generation=99, scheduler={"alpha": 0.3}))
    assert wait(lambda: live.view.config.alpha == 0.3)
    assert live.view.config.generation == 99
    assert before.config.generation == 3, "a view that was taken never changes"


def test_two_changes_in_a_row_are_both_seen(config_map: ConfigMap, live: LiveConfig) -> None:
    watching(config_map, live)
    for generation in (97, 98, 99):
        config_map.write(changed(generation=generation))
        assert wait(lambda: live.view.config.generation == generation)  # noqa: B023


def test_the_slow_poll_finds_a_change_that_raised_no_event(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "slidingserve.json").write_text(json.dumps(DOCUMENT))
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / "slidingserve.json").symlink_to(outside / "slidingserve.json")
    live = LiveConfig(watched, LIMIT, role="api", poll_seconds=0.1)
    live.start()
    (outside / "slidingserve.json").write_text(json.dumps(changed()))
    assert wait(lambda: live.view.config.generation == 4)
    live.stop()


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (changed(scheduler={"chunk": {"maxTokens": 99999}}), ["scheduler.chunk.maxTokens", "99999", "2048"]),
        (changed(scheduler={"alpha": "abc"}), ["alpha", "abc"]),
        (changed(defaultClass="gone"), ["defaultClass", "gone", "dialogue"]),
        ("{", ["JSON"]),
        ("[" * 100_000, ["JSON"]),
    ],
)
def test_what_cannot_be_taken_keeps_the_last_good_one_and_says_why(
    config_map: ConfigMap, document: dict[str, Any] | str, words: list[str]
) -> None:
    live = LiveConfig(config_map.directory, LIMIT, role="api")
    config_map.write(document)
    assert live.read()
    assert live.view.config.generation == 3
    assert live.view.rejected is not None
    assert all(word in live.view.rejected.message for word in words), live.view.rejected.message
    if isinstance(document, dict):
        assert (live.view.rejected.revision, live.view.rejected.generation) == ("bbbbbbbbbbbb", 4)


def test_a_file_that_cannot_be_read_is_refused_once_and_what_was_in_force_stays(
    tmp_path: Path, counted: Callable[..., float]
) -> None:
    file = tmp_path / "slidingserve.json"
    file.write_text(json.dumps(DOCUMENT))
    live = LiveConfig(tmp_path, LIMIT, role="api")
    file.unlink()
    file.mkdir()
    assert [live.read() for _ in range(3)] == [True, False, False]
    assert live.view.config.generation == 3
    assert live.view.rejected is not None
    assert "slidingserve.json: it cannot be read (Is a directory)" in live.view.rejected.message
    assert counted("config_reloads_total", role="api", result="rejected") == 1
    file.rmdir()
    file.write_text(json.dumps(DOCUMENT))
    assert live.read()
    assert live.view.rejected is None


def test_a_good_one_after_a_bad_one_clears_the_refusal(config_map: ConfigMap) -> None:
    live = LiveConfig(config_map.directory, LIMIT, role="api")
    config_map.write("{")
    live.read()
    config_map.write(changed(generation=6))
    live.read()
    assert live.view.rejected is None
    assert live.view.config.generation == 6


def test_a_missing_file_is_no_change(config_map: ConfigMap) -> None:
    live = LiveConfig(config_map.directory, LIMIT, role="api")
    (config_map.directory / "slidingserve.json").unlink()
    assert not live.read()
    assert live.view.config.generation == 3


def test_unknown_keys_are_reported_and_ignored(config_map: ConfigMap) -> None:
    config_map.write(changed(scheduler={"alpha": 0.5, "admission": {"mode": "relegate"}}, future=1))
    live = LiveConfig(config_map.directory, LIMIT, role="api")
    assert live.view.config.alpha == 0.5
    assert set(live.view.unknown_keys) == {"future", "scheduler.admission"}


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        ({"alpha": 0.1, "chunk": {"maxTokens": 99999}}, "scheduler.chunk.maxTokens: 99999 is above the 2048"),
        ({"alpha": -1}, "scheduler.alpha: -1 should be greater than or equal to 0"),
        ({"policy": "a_newer_one"}, 'scheduler.policy: "a_newer_one" should be'),
    ],
)
def test_a_start_with_a_scheduler_setting_that_cannot_be_taken_keeps_the_classes(
    config_map: ConfigMap, scheduler: dict[str, Any], words: str
) -> None:
    config_map.write(changed(scheduler=scheduler))
    live = LiveConfig(config_map.directory, LIMIT, role="api")
    assert [slo.name for slo in live.view.config.classes] == ["dialogue", "batch"]
    assert live.view.config.scheduler == builtin().scheduler
    in_force = live.view.config.revision, live.view.config.generation
    assert in_force == ("", 0), "nothing that was asked for is applied"
    assert live.view.rejected is not None
    assert words in live.view.rejected.message
    assert (live.view.rejected.revision, live.view.rejected.generation) == ("bbbbbbbbbbbb", 4)
    config_map.write(changed(generation=5))
    assert live.read()
    assert live.view.config.generation == 5
    assert live.view.rejected is None


@pytest.mark.parametrize("document", ["{", changed(classes=[]), {**DOCUMENT, "schemaVersion": 2}])
def test_a_process_that_starts_while_the_file_has_no_promise_in_it_serves_a_built_in_one_and_says_so(
    config_map: ConfigMap, document: dict[str, Any] | str, caplog: pytest.LogCaptureFixture
) -> None:
    config_map.write(document)
    view = LiveConfig(config_map.directory, LIMIT, role="api").view
    assert [slo.name for slo in view.config.classes] == ["default"]
    assert (view.config.revision, view.config.generation) == ("", 0)
    assert view.rejected is not None
    assert "configuration refused, built-in settings are in force: " in caplog.text


def test_reloads_are_counted(config_map: ConfigMap, counted: Callable[..., float]) -> None:
    live = LiveConfig(config_map.directory, LIMIT, role="core")
    config_map.write("{")
    live.read()
    assert counted("config_reloads_total", role="core", result="applied") == 1
    assert counted("config_reloads_total", role="core", result="rejected") == 1
