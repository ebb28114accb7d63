"""The gate with faked versions, hooks and configurations; its table against the documentation."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from types import SimpleNamespace as Fake
from typing import Any

import pytest
from slidingserve.server.launch import LaunchError
from slidingserve.server.runtime import FALLBACK_REASON, NO_HOOKS, Runtime
from slidingserve.vllm_adapter import entry, gate, unplanned
from slidingserve.vllm_adapter.gate import Hook, check_config, check_hooks, check_version

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "engine.md"


def test_tested_minors_pass_with_any_patch_and_build() -> None:
    assert check_version("0.32.0") is None
    assert check_version("0.32.7+cpu") is None


@pytest.mark.parametrize("found", ["0.31.9", "0.33.0", "1.32.0", "0.3.2"])
def test_another_minor_is_named_with_the_one_to_install(found: str) -> None:
    sentence = check_version(found)
    assert sentence is not None
    assert found in sentence
    assert "install vLLM 0.32.x" in sentence


def test_no_vllm_says_how_to_install_it() -> None:
    assert "slidingserve[gpu]" in (check_version("") or "")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    class Scheduler:
        def schedule(self, throttle_prefills: bool = False, extra: int = 0) -> None: ...

    made = types.ModuleType("fake_vllm")
    made.Scheduler = Scheduler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_vllm", made)
    return made


def test_a_hook_with_more_parameters_behind_ours_passes(module: types.ModuleType) -> None:
    hook = Hook("fake_vllm", "Scheduler.schedule", ("self", "throttle_prefills"))
    assert check_hooks((hook,)) is None


def test_a_hook_with_other_parameters_is_named(module: types.ModuleType) -> None:
    sentence = check_hooks((Hook("fake_vllm", "Scheduler.schedule", ("self", "budget")),))
    assert sentence is not None
    assert "Scheduler.schedule takes (self, throttle_prefills, extra)" in sentence
    assert "(self, budget)" in sentence


@pytest.mark.parametrize("hook", [("fake_vllm", "Scheduler.gone"), ("no_such_module", "X.y")])
def test_a_hook_that_is_gone_is_named(module: types.ModuleType, hook: tuple[str, str]) -> None:
    assert f"{hook[0]}.{hook[1]} is missing" in (check_hooks((Hook(*hook, ("self",)),)) or "")


def config(**parts: dict[str, Any]) -> Fake:
    """A plain engine's VllmConfig, as far as the gate reads it; `parts` changes fields of its sections."""
    sections: dict[str, dict[str, Any]] = {
        "scheduler_config": {"policy": "fcfs", "enable_chunked_prefill": True},
        "parallel_config": {"pipeline_parallel_size": 1},
        "model_config": {
            "supports_multimodal_inputs": False,
            "is_encoder_decoder": False,
            "runner_type": "generate",
            "is_diffusion": False,
            "is_hybrid": False,
            "is_attention_free": False,
        },
    }
    whole = {name: Fake(**{**fields, **parts.get(name, {})}) for name, fields in sections.items()}
    top = {"speculative_config": None, "kv_transfer_config": None, "ec_transfer_config": None}
    return Fake(**whole, **{**top, **parts.get("top", {})})


REFUSED: dict[str, dict[str, Any]] = {
    "priority scheduling": {"scheduler_config": {"policy": "priority"}},
    "speculative decoding": {"top": {"speculative_config": Fake()}},
    "pipeline parallel": {"parallel_config": {"pipeline_parallel_size": 2}},
    "KV connectors": {"top": {"kv_transfer_config": Fake()}},
    "multimodal models": {"model_config": {"supports_multimodal_inputs": True}},
    "encoder-decoder and pooling models": {"model_config": {"runner_type": "pooling"}},
    "diffusion models": {"model_config": {"is_diffusion": True}},
    "chunked prefill off": {"scheduler_config": {"enable_chunked_prefill": False}},
    "Mamba and hybrid models": {"model_config": {"is_hybrid": True}},
}


def test_a_plain_engine_passes() -> None:
    assert check_config(config()) is None


@pytest.mark.parametrize("row", unplanned.CONFIG_ROWS, ids=lambda row: row.name)
def test_each_row_refuses_its_engine_with_its_sentence(row: unplanned.Row) -> None:
    assert check_config(config(**REFUSED[row.name])) == row.sentence


def test_the_documentation_has_every_row_with_its_sentence() -> None:
    page = PAGE.read_text()
    assert [row.name for row in unplanned.CONFIG_ROWS if f"| {row.name} | {row.sentence} |" not in page] == []


def test_a_refused_start_offers_the_fallback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gate, "installed_version", lambda: "0.31.0")
    with pytest.raises(LaunchError, match=r"vLLM 0\.31\.0 .* --fallback"):
        entry.serve(Runtime(tmp_path))


def test_the_fallback_runs_vllm_with_its_own_scheduler_and_remembers_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[list[str]] = []
    fake = types.ModuleType("vllm.entrypoints.cli.main")
    fake.main = lambda: called.append(list(sys.argv))  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.entrypoints", "vllm.entrypoints.cli"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    monkeypatch.setattr(gate, "installed_version", lambda: "0.31.0")
    monkeypatch.setattr(sys, "argv", ["vllm", "serve", "m", "--scheduler-cls", "ours", "--middleware", "x"])
    monkeypatch.setenv(FALLBACK_REASON, "")
    monkeypatch.setenv(NO_HOOKS, "")
    entry.serve(Runtime(tmp_path, fallback_allowed=True))
    assert called == [["vllm", "serve", "m", "--middleware", "x"]]
    runtime = Runtime.from_env({**Runtime(tmp_path).to_env(), FALLBACK_REASON: os.environ[FALLBACK_REASON]})
    assert runtime is not None
    assert "0.31.0" in runtime.fallback_reason
    assert os.environ[NO_HOOKS] == "1"
    assert capsys.readouterr().err.count("\n") == 1
