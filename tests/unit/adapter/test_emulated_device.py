"""The device of an emulated engine: serial, repeatable, on time."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from slidingserve import hardware
from slidingserve.server.emulation import EmulationError
from slidingserve.vllm_adapter.emulated_device import FIRST_TOKEN, TOKENS, Device, digest, token

FAST = hardware.get(hardware.names()[0])


def seconds(device: Device) -> list[float]:
    return [batch.end - batch.start for batch in device.batches]


def test_a_batch_begins_when_it_is_handed_over_or_the_one_before_it_ends() -> None:
    device = Device(FAST, 0.0, 0)
    before = time.monotonic()
    first, second = device.submit([16], [0], []), device.submit([], [], [16])
    after = time.monotonic()
    assert before <= first.start <= after
    assert second.start == first.end
    device.wait(second)
    assert time.monotonic() >= second.end
    assert device.submit([], [], [17]).start > second.end


def test_the_same_seed_gives_the_same_times_and_noise_is_about_them() -> None:
    def run(noise: float, seed: int) -> list[float]:
        device = Device(FAST, noise, seed)
        for _ in range(400):
            device.submit([128], [0], [1000])
        return seconds(device)

    exact = run(0.0, 0)
    assert exact == pytest.approx([exact[0]] * 400)
    assert run(0.1, 1) == pytest.approx(run(0.1, 1))
    noisy = run(0.1, 1)
    assert noisy != pytest.approx(run(0.1, 2))
    assert sum(noisy) / sum(exact) == pytest.approx(1.0, abs=0.02)
    assert 1.2 < max(noisy) / exact[0] < 1.6


def test_the_log_has_one_row_a_batch_in_the_end(tmp_path: Path) -> None:
    device = Device(FAST, 0.0, 0, tmp_path / "log.csv")
    batch = device.submit([5, 6], [10, 20], [100])
    device.wait(batch)
    device.close()
    device.close()
    with (tmp_path / "log.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["end"]) - float(row["start"]) == pytest.approx(batch.end - batch.start, abs=2e-6)
    assert [int(row[name]) for name in ("prefill_tokens", "prefills", "decodes", "cached_tokens")] == [
        *(11, 2, 1, 130)
    ]


def test_tokens_depend_on_prompt_and_position_alone_and_are_printable() -> None:
    prompt = digest([1, 2, 3], "")
    assert prompt == digest((1, 2, 3), "") != digest([1, 2, 4], "")
    assert prompt != digest([1, 2, 3], "seed")
    ids = [token(prompt, position) for position in range(500)]
    assert set(ids) == set(range(FIRST_TOKEN, FIRST_TOKEN + TOKENS))
    assert all(chr(number).isprintable() for number in ids)
    assert ids[:3] == [token(prompt, position) for position in range(3)]


def test_a_log_that_cannot_be_written_is_named_at_once() -> None:
    with pytest.raises(
        EmulationError, match=r"--emulate-log /dev/full: .*No space left on device.*another file"
    ):
        Device(FAST, 0.0, 0, Path("/dev/full"))
