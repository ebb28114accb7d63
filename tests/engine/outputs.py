"""A program of its own: greedy outputs of stock vLLM, and of a faulty scheduler, for token ids from a file.

usage: python -m tests.engine.outputs MODEL PROMPTS.json TOKENS OUT.json
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def generate(model: str, prompts: list[list[int]], tokens: int, *, faulty: bool) -> list[str]:
    """Text for each prompt, by an engine in this process."""
    from vllm import LLM, SamplingParams

    scheduler = "tests.engine.faulty.FaultyScheduler" if faulty else None
    engine = LLM(
        model,
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=16,
        max_num_batched_tokens=128 if faulty else 2048,
        scheduler_cls=scheduler,
    )
    params = SamplingParams(max_tokens=tokens, temperature=0)
    results = engine.generate([{"prompt_token_ids": prompt} for prompt in prompts], params, use_tqdm=False)
    return [result.outputs[0].text for result in results]


def main(model: str, prompts: str, tokens: str, out: str) -> None:
    """Write {"stock": [...], "faulty": [...]}."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_PLUGINS"] = ""
    wanted = json.loads(Path(prompts).read_text())
    found = {
        name: generate(model, wanted, int(tokens), faulty=name == "faulty") for name in ("stock", "faulty")
    }
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
