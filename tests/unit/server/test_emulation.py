"""`slidingserve serve --emulate`: arguments and environment, and refusals in one line. No vLLM is needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from slidingserve import hardware
from slidingserve.cli import app
from slidingserve.server import emulation, launch
from slidingserve.server.emulation import Emulation
from typer.testing import CliRunner

NAME = hardware.names()[0]


def test_an_unknown_profile_is_one_line_with_the_names_and_exit_status_2() -> None:
    result = CliRunner().invoke(app, ["serve", "--emulate", "rtx9090", "--port", "1"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "--emulate rtx9090" in result.stderr
    assert all(name in result.stderr for name in hardware.names())


def test_settings_of_an_emulation_without_one_are_refused() -> None:
    result = CliRunner().invoke(app, ["serve", "model", "--emulate-noise", "0.1"])
    assert result.exit_code == 2
    assert "add --emulate PROFILE" in result.stderr


def test_a_log_in_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(launch.LaunchError, match="make it first"):
        launch.prepare(
            None,
            [],
            config_dir=None,
            state_dir=tmp_path,
            fallback=False,
            emulate=Emulation(NAME, log=tmp_path / "none" / "log.csv"),
        )


def test_the_environment_reads_back_as_the_same_emulation(tmp_path: Path) -> None:
    for made in (Emulation(NAME), Emulation(NAME, 0.0, 3, tmp_path / "log.csv")):
        assert Emulation.from_env(made.to_env()) == made
    assert Emulation.from_env({}) is None


def vllm_arguments(monkeypatch: pytest.MonkeyPatch, *user: str) -> list[str]:
    monkeypatch.setattr(emulation, "write_model", lambda profile, directory: None)
    return emulation.vllm_arguments(hardware.get(NAME), "chat", user, Path("model"))


def test_the_profiles_limits_hold_unless_the_user_gives_others(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = hardware.get(NAME)
    words = vllm_arguments(monkeypatch, "--port", "1", "--max_num_seqs=7")
    assert words[:4] == ["model", "--port", "1", "--max_num_seqs=7"]
    assert "--max-num-seqs" not in words
    assert words[words.index("--max-num-batched-tokens") + 1] == str(profile.max_tokens)
    assert words[words.index("--served-model-name") + 1] == "chat"


@pytest.mark.parametrize("name", hardware.names())
def test_the_longest_request_fits_the_kv_cache(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(emulation, "write_model", lambda profile, directory: None)
    words = emulation.vllm_arguments(hardware.get(name), "chat", [], Path("model"))
    longest = int(words[words.index("--max-model-len") + 1])
    assert 32_000 < longest < hardware.get(name).kv_tokens


def test_what_speaks_of_gpus_and_weights_is_dropped_with_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = vllm_arguments(monkeypatch, "--port", "1")
    given = (
        "-tp",
        "2",
        "--port",
        "1",
        "--tensor_parallel_size=4",
        "--revision",
        "main",
        "--load-format=auto",
    )
    assert vllm_arguments(monkeypatch, *given) == plain


def test_without_a_model_the_first_option_of_vllm_is_not_taken_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def prepare(model: str | None, args: list[str], **more: object) -> None:
        seen.append((model, args))
        raise launch.LaunchError("enough")

    monkeypatch.setattr(launch, "prepare", prepare)
    for words in (["--port", "1", "--emulate", NAME], ["chat", "--emulate", NAME, "--port", "1"]):
        CliRunner().invoke(app, ["serve", *words])
    assert seen == [(None, ["--port", "1"]), ("chat", ["--port", "1"])]


def test_without_vllm_an_emulation_says_in_one_line_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the environment of `make venv`, which has no vLLM and so nothing that writes a model."""
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    monkeypatch.delitem(sys.modules, "slidingserve.bench.demo_model", raising=False)
    result = CliRunner().invoke(app, ["serve", "--emulate", NAME, "--state-dir", str(tmp_path / "state")])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "vLLM is not installed in this environment (no module named safetensors); install it: pip" in line
    assert "make venv-engine" in line
    assert not (tmp_path / "state").exists(), "nothing was made"
