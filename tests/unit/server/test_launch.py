"""From our arguments to vLLM's: environment, argument vector, state directory, and refusals in one line."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from slidingserve.server import launch
from slidingserve.server.launch import LaunchError, plugin_list, prepare
from slidingserve.server.runtime import Runtime

from tests.unit.server.conftest import DOCUMENT


def start(tmp_path: Path, *args: str, **more: Any) -> launch.Launch:
    options: dict[str, Any] = {"config_dir": None, "state_dir": tmp_path / "state", "fallback": False}
    return prepare("model", list(args), **{**options, **more})


def test_vllms_arguments_pass_as_they_are_with_our_hooks_added(tmp_path: Path) -> None:
    argv = list(start(tmp_path, "--port", "1", "--enforce-eager").argv)
    assert argv[:6] == ["vllm", "serve", "model", "--port", "1", "--enforce-eager"]
    assert argv[argv.index("--scheduler-cls") + 1] == launch.SCHEDULER
    assert argv[argv.index("--middleware") + 1] == launch.MIDDLEWARE


def test_the_environment_reads_back_as_the_same_runtime(tmp_path: Path) -> None:
    made = start(tmp_path, fallback=True, calibration_seconds=3.0, profile_dir=tmp_path)
    assert Runtime.from_env(made.env) == made.runtime
    assert made.runtime.fallback_allowed
    assert made.env["PROMETHEUS_MULTIPROC_DIR"] == str(tmp_path / "state" / "metrics")


def test_what_an_earlier_engine_left_is_wiped_and_nothing_else(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for part in ("metrics", "processes", "mine"):
        (state / part).mkdir(parents=True)
        (state / part / "old").touch()
    start(tmp_path)
    assert not (state / "metrics" / "old").exists()
    assert not (state / "processes" / "old").exists()
    assert (state / "mine" / "old").exists()


def test_what_cannot_be_wiped_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "metrics").touch()
    with pytest.raises(LaunchError, match=r"--state-dir .*/state/metrics: File exists; remove it"):
        start(tmp_path)


def test_two_engines_cannot_share_a_state_directory(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from slidingserve.server.launch import prepare\n"
        "prepare(None, [], config_dir=None, state_dir=Path(sys.argv[1]), fallback=False)\n"
        "print('up', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "state")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "up\n"
        with pytest.raises(LaunchError, match="another engine uses it"):
            start(tmp_path)
        other.communicate("")


def test_directories_of_killed_engines_are_swept_and_those_in_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stale = tmp_path / "slidingserve-stale"
    stale.mkdir()
    (stale / "lock").touch()
    first = start(tmp_path, state_dir=None).runtime.state_dir
    second = start(tmp_path, state_dir=None).runtime.state_dir
    assert not stale.exists()
    assert first.exists()
    assert second.exists()


@pytest.mark.parametrize("args", [["--scheduler-cls", "x.Y"], ["--scheduler-cls=x.Y"]])
def test_another_scheduler_is_refused(tmp_path: Path, args: list[str]) -> None:
    with pytest.raises(LaunchError, match=r"--scheduler-cls.*vllm serve"):
        start(tmp_path, *args)


def test_a_configuration_directory_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"no slidingserve\.json"):
        start(tmp_path, config_dir=tmp_path)
    (tmp_path / "slidingserve.json").touch()
    with pytest.raises(LaunchError, match="give a directory that holds one"):
        start(tmp_path, config_dir=tmp_path / "slidingserve.json")


def written(tmp_path: Path, document: Any) -> Path:
    text = document if isinstance(document, str) else json.dumps(document)
    (tmp_path / "slidingserve.json").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "it is not JSON (EOF while parsing an object at line 1 column 1); write one JSON object"),
        ("[" * 100_000, "it is not JSON"),
        ([], "[] should be an object"),
        (
            {**DOCUMENT, "schemaVersion": 2},
            "schemaVersion: 2 should be 1; expected: Version of this format: 1",
        ),
        ({**DOCUMENT, "defaultClass": "gone"}, "'gone' is no class; choose one of dialogue, batch"),
        (
            {**DOCUMENT, "classes": [{"name": "dialogue", "ttftSlowdown": 5, "tbtMilliseconds": -4}]},
            "classes[0].tbtMilliseconds: -4 should be greater than 0; expected: Time a token after the first",
        ),
    ],
)
def test_a_start_without_a_promise_to_keep_is_refused_by_file_field_value_and_remedy(
    tmp_path: Path, document: Any, words: str
) -> None:
    with pytest.raises(LaunchError) as refused:
        start(tmp_path, config_dir=written(tmp_path, document))
    text = str(refused.value)
    assert text.startswith(f"--slo-config {tmp_path}/slidingserve.json: ")
    assert words in text
    assert "\n" not in text
    assert not (tmp_path / "state").exists(), "nothing was made"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slidingserve.json").mkdir()
    with pytest.raises(LaunchError, match=r"slidingserve\.json: it cannot be read \(Is a directory\)"):
        start(tmp_path, config_dir=tmp_path)


def test_a_scheduler_setting_that_is_refused_is_told_in_a_line_and_the_engine_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(tmp_path, config_dir=written(tmp_path, {**DOCUMENT, "scheduler": {"alpha": "abc"}}))
    (line,) = capsys.readouterr().err.splitlines()
    file = f"{tmp_path}/slidingserve.json"
    assert line.startswith(
        f'slidingserve: --slo-config {file}: scheduler.alpha: "abc" should be a valid number'
    )
    assert line.endswith("; its classes hold, with built-in scheduler settings")


@pytest.mark.parametrize("more", [{}, {"future": 1, "scheduler": {"admission": {}}}])
def test_a_good_file_and_one_with_keys_of_a_newer_operator_start_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any]
) -> None:
    start(tmp_path, config_dir=written(tmp_path, {**DOCUMENT, **more}))
    assert capsys.readouterr().err == ""


def test_the_users_plugins_are_kept() -> None:
    assert plugin_list("lora_filesystem_resolver,mine").split(",") == [
        *launch.PLUGINS,
        "lora_filesystem_resolver",
        "mine",
    ]


def test_without_a_list_all_that_vllm_loads_by_itself_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "lora_filesystem_resolver"

    monkeypatch.setattr(launch, "entry_points", lambda group: [Point] if "general" in group else [])
    assert plugin_list(None).split(",") == [*launch.PLUGINS, "lora_filesystem_resolver"]


def test_an_empty_list_means_ours_alone() -> None:
    assert plugin_list("") == ",".join(launch.PLUGINS)


def test_help_is_quick_and_needs_no_vllm() -> None:
    code = (
        "import sys; from slidingserve.cli import app\n"
        "app(['serve', '--help'], standalone_mode=False)\n"
        "assert not {'vllm', 'torch', 'prometheus_client', 'numpy'} & sys.modules.keys(), 'heavy import'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=30)


def test_a_refused_start_is_one_line_and_exit_status_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slidingserve.cli", "serve", "m", "--slo-config", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert result.stderr.startswith("slidingserve: --slo-config")
    assert result.stderr.count("\n") == 1


def test_without_vllm_the_command_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slidingserve.cli", "serve", "m", "--state-dir", str(tmp_path / "s")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert "vLLM is not installed in this environment; install it: pip install" in result.stderr
    assert "--fallback" not in result.stderr, "there is nothing to fall back to"
    assert "Traceback" not in result.stderr


def test_compiled_policies_are_kept_beside_their_source_where_that_can_be_written(tmp_path: Path) -> None:
    assert launch.compiled_env({}, tmp_path) == {}
    assert launch.compiled_env({"NUMBA_CACHE_DIR": "/elsewhere"}, Path("/proc")) == {}, "as the user says"


def test_compiled_policies_of_a_read_only_package_are_kept_in_the_cache_or_for_one_engine(
    tmp_path: Path,
) -> None:
    read_only = tmp_path / "absent"
    kept = launch.compiled_env({"SLIDINGSERVE_CACHE": str(tmp_path)}, read_only)
    assert kept == {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    (tmp_path / "file").touch()
    no_cache = {"SLIDINGSERVE_CACHE": str(tmp_path / "file" / "cache")}
    (Path(launch.compiled_env(no_cache, read_only)["NUMBA_CACHE_DIR"]) / "can be written").touch()


def test_help_is_quick_for_it_imports_neither_numba_nor_vllm() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from slidingserve.cli import app\n"
        "for command in ([], ['serve']):\n"
        "    assert CliRunner().invoke(app, [*command, '--help']).exit_code == 0\n"
        "    print(command, sorted({'numba', 'vllm', 'torch'} & sys.modules.keys()))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["[] []", "['serve'] []"]
