"""The emulated engine: vLLM's core over a device that only takes time, and the whole server over it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slidingserve import hardware
from slidingserve.server.emulation import Emulation, write_model

from tests.engine.loads import Make, preempted
from tests.engine.served import Served, ends_with_its_killed_core, start, wait

NAME = "a100-tp1-llama3.1-8b" if "a100-tp1-llama3.1-8b" in hardware.names() else hardware.names()[0]
PROFILE = hardware.get(NAME)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes emulated engine cores that a test steps by hand, with asynchronous scheduling on or off."""
    monkeypatch.setenv("VLLM_PLUGINS", "slidingserve")
    monkeypatch.setenv("SLIDINGSERVE_STATE_DIR", str(tmp_path))
    for name, value in Emulation(NAME).to_env().items():
        monkeypatch.setenv(name, value)
    write_model(PROFILE, tmp_path / "model")
    from slidingserve.vllm_adapter.timed_executor import TimedExecutor

    from tests.engine.cores import Core

    made: list[Any] = []

    def build(*, asynchronous: bool = True, **engine: Any) -> Any:
        engine = {"block_size": 16, "max_num_seqs": 64, "async_scheduling": asynchronous, **engine}
        directory = tmp_path / str(len(made))
        made.append(Core(tmp_path / "model", directory, monkeypatch, executor=TimedExecutor, engine=engine))
        return made[-1]

    yield build
    for core in made:
        core.close()


def prompt(number: int, length: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(number).integers(16, 250, size=length)]


def load(core: Any, requests: int = 9, output: int = 60) -> None:
    """Prompts of 40 to 440 tokens, all at once: prefills meet decodes."""
    for number in range(requests):
        core.add(f"r{number}", prompt(number, 40 + 50 * number), output=output, ttft_s=5.0, tbt_s=0.1)
    core.drain(5000)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_kv_cache_and_the_queue_are_those_of_the_profile(make: Make, asynchronous: bool) -> None:
    core = make(asynchronous=asynchronous)
    blocks = core.scheduler.kv_cache_manager.block_pool.num_gpu_blocks
    assert blocks == PROFILE.kv_tokens // 16
    assert core.core.batch_queue_size == (2 if asynchronous else 1)


def test_the_same_prompts_get_the_same_tokens_whatever_the_schedule(make: Make) -> None:
    outputs = []
    variants: tuple[dict[str, Any], ...] = (
        {},
        {"asynchronous": False},
        {"max_num_batched_tokens": 2048, "enable_prefix_caching": True},
        {"num_gpu_blocks_override": 130, "asynchronous": False},
        {"num_gpu_blocks_override": 130},
    )
    for variant in variants:
        core = make(**variant)
        victims = preempted(core)
        load(core)
        if variant.get("enable_prefix_caching"):
            before = len(core.steps)
            core.add("again", prompt(8, 440), output=60)
            core.drain()
            assert core.steps[before]["again"] < 100, "most of it was found in the cache"
            assert core.ids.pop("again") == core.ids["r8"]
        outputs.append(core.ids)
        assert bool(victims) == ("num_gpu_blocks_override" in variant)
    assert all(found == outputs[0] for found in outputs)
    assert len({tuple(ids) for ids in outputs[0].values()}) == 9
    assert all(len(ids) == 60 for ids in outputs[0].values())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_adapter_measures_what_the_device_took(make: Make, asynchronous: bool) -> None:
    core = make(asynchronous=asynchronous)
    measured: list[float] = []
    core.agent.learner.observe = lambda features, seconds: measured.append(seconds)
    load(core)
    real = [batch.end - batch.start for batch in core.core.model_executor.device.batches]
    assert len(measured) == len(real) > 40
    wrong = np.abs(np.array(measured) - np.array(real))
    assert np.median(wrong) < 0.001
    # Back to back with a queue of two; without, the scheduler's own time lies between batches.
    batches = list(core.core.model_executor.device.batches)
    gaps = [after.start - before.end for before, after in pairwise(batches[1:])]
    assert (np.median(gaps) == 0) == asynchronous


def test_a_batch_takes_what_the_profile_says_of_what_was_scheduled(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIDINGSERVE_EMULATE_NOISE", "0")
    core = make()
    core.add("r", prompt(0, 300), output=3)
    core.drain()
    device = core.core.model_executor.device
    # 256 tokens are the budget of a step here; asynchronous scheduling ends without a step too many.
    expected = [([256], [0], []), ([44], [256], []), ([], [], [300]), ([], [], [301])]
    assert [batch.end - batch.start for batch in device.batches] == pytest.approx(
        [device.seconds(*batch) for batch in expected]
    )


# --- the whole server --------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One emulated engine, started as people do."""
    directory = tmp_path_factory.mktemp("emulated")
    log = directory / "batches.csv"
    arguments = ("--emulate", NAME, "--emulate-log", str(log), "--calibration-seconds", "0")
    engine = start(Path("tiny"), directory, *arguments, "--tensor-parallel-size", "4")
    yield engine
    engine.stop()


def test_it_answers_as_any_engine_and_each_prompt_alike(emulated: Served) -> None:
    assert emulated.get("/v1/models").json()["data"][0]["id"] == "tiny"

    def text(number: int) -> str:
        answer: str = emulated.complete(f"hello {number % 8}", tokens=12).json()["choices"][0]["text"]
        return answer

    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(text, range(16)))
    assert together[:8] == together[8:] == [text(number) for number in range(8)]
    assert len(set(together)) == 8
    assert all(len(answer) == 12 and answer.isprintable() for answer in together)


def test_seeded_samples_differ_and_repeat(emulated: Served) -> None:
    def samples() -> list[str]:
        answer = emulated.complete("hello", n=3, seed=7, temperature=1.0).json()
        return [choice["text"] for choice in answer["choices"]]

    assert samples() == samples()
    assert len(set(samples())) == 3


def test_token_ids_of_the_real_vocabulary_are_taken_and_logprobs_refused(emulated: Served) -> None:
    assert emulated.complete([PROFILE.vocab - 1, 5]).status_code == 200
    refused = emulated.complete("hello", logprobs=0)
    assert refused.status_code == 400
    assert "logprobs" in refused.json()["error"]["message"]


def test_structured_output_is_what_the_grammar_allows(emulated: Served) -> None:
    answer = emulated.complete("colour?", tokens=16, structured_outputs={"choice": ["red", "green", "blue"]})
    assert answer.json()["choices"][0]["text"] in ("red", "green", "blue")


def test_the_log_holds_each_batch_in_the_devices_own_time(emulated: Served) -> None:
    emulated.complete("hello", tokens=50)
    emulated.complete("hello", tokens=1)
    with (emulated.log.parent / "batches.csv").open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert len(rows) > 40
    assert all(row["start"] < row["end"] <= row["woke"] + 1e-5 for row in rows)
    assert all(before["end"] <= after["start"] + 1e-5 for before, after in pairwise(rows))
    state = json.dumps(emulated.state())
    assert '"fallback": null' in state


def test_probes_that_went_well_leave_no_line_and_those_that_failed_do(emulated: Served) -> None:
    emulated.get("/health")
    emulated.get("/v1/none")
    wait(lambda: '"GET /v1/none HTTP/1.1" 404' in emulated.log.read_text(), "that one is told")
    lines = [line for line in emulated.log.read_text().splitlines() if '"GET /' in line]
    assert [line for line in lines if line.endswith("200 OK")] == []


def test_a_core_that_is_killed_is_the_last_line_and_no_success(emulated: Served) -> None:
    """Last, as it ends the engine. vLLM calls it a success: exit status 0, "Finished server process"."""
    ends_with_its_killed_core(emulated)
