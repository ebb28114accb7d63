"""The engine on other processors than this one, as far as they can be had by hiding instruction sets.

A first prompt of 4 tokens reaches the attention before any matrix product of oneDNN's: on a processor with
AMX that ended the engine with SIGILL.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from slidingserve import processor

from tests.engine.served import Served

HERE = processor.level(processor.flags(processor.read()))
LIBRARIES = {"avx2": "_C_AVX2", "avx512": "_C_AVX512", "avx512_bf16": "_C", "amx": "_C"}
SETS = list(
    dict.fromkeys([HERE, *(name for name in ("avx512", "avx2") if processor.lower(name, HERE) == name)])
)
DTYPES = ("bfloat16", "float16", "float32")
SHORT, LONGER = [5, 6, 7, 8], list(range(5, 16))

PROGRAM = """
import json, sys
from pathlib import Path
import torch
from vllm import LLM, SamplingParams
from slidingserve.vllm_adapter import cpu_features

model, dtypes, prompts = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
found = {"told": cpu_features.told(), "level": cpu_features.prepare(), "tokens": {}}
for dtype in dtypes:
    llm = LLM(model, dtype=dtype, enforce_eager=True, max_model_len=64, max_num_seqs=4,
              async_scheduling=False, enable_prefix_caching=False)
    greedy = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    found["tokens"][dtype] = [
        llm.generate([{"prompt_token_ids": prompt}], greedy, use_tqdm=False)[0].outputs[0].token_ids
        for prompt in prompts
    ]
    llm.llm_engine.engine_core.shutdown()
maps = Path("/proc/self/maps").read_text()
found["libraries"] = sorted({line.rsplit("/", 1)[1].split(".")[0] for line in maps.splitlines()
                             if "/vllm/_C" in line})
found["aten"] = torch.backends.cpu.get_cpu_capability()
print("FOUND " + json.dumps(found))
"""


def on(level: str, model: Path, dtypes: tuple[str, ...]) -> dict[str, Any]:
    """What an engine in one process did on an instruction set."""
    environment = {
        **os.environ,
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_PLUGINS": "slidingserve,slidingserve_cpu",
        **({processor.MASK: level, **processor.library_environment(level)} if level != HERE else {}),
    }
    command = [sys.executable, "-c", PROGRAM, str(model), json.dumps(dtypes), json.dumps([SHORT, LONGER])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return found


@pytest.mark.parametrize("level", SETS)
def test_an_engine_starts_with_a_short_first_prompt_on_every_set_that_can_be_had_here(
    level: str, tiny_model: Path
) -> None:
    # Every dtype on what the machine has; the others with the one that failed.
    found = on(level, tiny_model, DTYPES if level == HERE else DTYPES[:1])
    assert found["level"] == level
    assert found["libraries"] == [LIBRARIES[level]]
    assert found["told"].startswith(f"instruction sets: found {HERE}, the engine uses {level}")
    assert ("no AMX on this processor" in found["told"]) == (HERE != "amx")
    assert found["aten"] == ("AVX2" if level == "avx2" else "AVX512")
    for made in found["tokens"].values():
        assert [len(tokens) for tokens in made] == [4, 4]


def test_a_served_engine_says_which_instruction_sets_it_found_and_uses(served: Served) -> None:
    (line,) = (
        line for line in served.log.read_text(errors="replace").splitlines() if "instruction sets: " in line
    )
    assert f"found {HERE}, the engine uses {HERE}" in line
