"""Instruction sets by the kernel's words, and caches of machine code that no other processor trusts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from slidingserve import processor
from slidingserve.processor import ProcessorError
from slidingserve.server.launch import LaunchError, processor_env

HASWELL = "sse4_2 avx avx2 fma"
SKYLAKE = f"{HASWELL} avx512f avx512bw avx512dq avx512vl"
GENOA = f"{SKYLAKE} avx512_bf16"
RAPIDS = f"{GENOA} amx_bf16 amx_tile amx_int8"


def cpuinfo(flags: str, model: str = "A Processor") -> str:
    one = f"processor\t: 0\nvendor_id\t: V\nmodel name\t: {model}\nflags\t\t: {flags}\n"
    return f"{one}\n{one.replace(': 0', ': 1')}"


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ("sse4_2 avx", ""),
        (HASWELL, "avx2"),
        (f"{HASWELL} avx512f", "avx2"),
        (SKYLAKE, "avx512"),
        (GENOA, "avx512_bf16"),
        (RAPIDS, "amx"),
        (f"{SKYLAKE} amx_bf16 amx_tile", "avx512"),
    ],
)
def test_a_level_is_reached_when_all_below_it_is_there(flags: str, level: str) -> None:
    assert processor.level(processor.flags(cpuinfo(flags))) == level


def test_a_mask_that_is_no_instruction_set_is_refused_by_name_and_value() -> None:
    assert processor.masked({processor.MASK: " AVX2 "}) == "avx2"
    with pytest.raises(ProcessorError, match=r"SLIDINGSERVE_CPU_ISA=sse: .* one of avx2, avx512"):
        processor.masked({processor.MASK: "sse"})
    with pytest.raises(LaunchError, match="SLIDINGSERVE_CPU_ISA=sse"):
        processor_env({processor.MASK: "sse", "HOME": "/root"})


def test_caches_of_machine_code_are_kept_by_kind_of_processor() -> None:
    here, there = (
        processor_env({"HOME": "/home/a"}, cpuinfo(flags))["VLLM_CACHE_ROOT"] for flags in (GENOA, SKYLAKE)
    )
    assert here != there
    assert Path(here).parent == Path(there).parent == Path("/home/a/.cache/vllm")
    users = {"HOME": "/home/a", "VLLM_CACHE_ROOT": "/cache/v", "TORCHINDUCTOR_CACHE_DIR": "/cache/i"}
    keyed = processor_env(users, cpuinfo(GENOA))
    assert {name: Path(keyed[name]).name for name in keyed} == dict.fromkeys(keyed, Path(here).name)
    assert processor_env({**users, **keyed}, cpuinfo(GENOA)) == keyed, "a child process keys no further"
    masked = processor_env({"HOME": "/home/a", processor.MASK: "avx2"}, cpuinfo(GENOA))
    assert masked["VLLM_CACHE_ROOT"] not in (here, there)
    assert (masked["ATEN_CPU_CAPABILITY"], masked["ONEDNN_MAX_CPU_ISA"]) == ("avx2", "AVX2")


PROGRAM = """
import numpy as np
from slidingserve.core.compiled import compiled

@compiled
def total(values):
    return values.sum()
total(np.ones(3))
print(*(sum(part.values()) for part in (total.stats.cache_hits, total.stats.cache_misses)))
"""


def test_compiled_policies_of_another_processor_are_not_loaded(tmp_path: Path) -> None:
    module = tmp_path / "probe.py"
    module.write_text(PROGRAM)

    def run(**cpu: str) -> tuple[int, int]:
        environment = {
            **os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **cpu
        }  # fmt: skip
        command = [sys.executable, str(module)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        hits, misses = map(int, done.stdout.split())
        return hits, misses

    assert run() == (0, 1)
    assert run() == (1, 0)
    # What a pod on an older node finds in a volume that a newer one filled.
    assert run(NUMBA_CPU_NAME="haswell", NUMBA_CPU_FEATURES="+avx2,+fma") == (0, 1)
