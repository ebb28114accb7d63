"""A program of its own: what engines in this process answer to the same jobs, under stock vLLM, a faulty
scheduler, and ours with each policy.

usage: python -m tests.engine.outputs MODEL JOBS.json OUT.json

A job is {"prompt": ids, "params": {...}} with "choice" (structured output), "adapter" (0, 1 or 2) or "abort"
(not to be answered). Ours runs in little KV cache with prefix caching, so that requests are preempted.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH = 128
BLOCKS = 72
"""Of 32 tokens: the longest request takes 48."""
MOST_STEPS = 20_000
Answers = dict[str, list[dict[str, Any]]]
"""By job, a text and its token ids for every sequence."""


def build(model: str, scheduler: Any, **options: Any) -> Any:
    """An engine with a place for one LoRA adapter at a time."""
    from vllm import LLM

    return LLM(
        model,
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=16,
        scheduler_cls=scheduler,
        enable_lora=True,
        max_loras=1,
        max_lora_rank=8,
        **options,
    )


def answer(llm: Any, jobs: list[dict[str, Any]], adapters: list[str]) -> tuple[Answers, int]:
    """The answers, and how many prompt tokens the prefix cache had. Jobs with adapters come when all others
    are done."""
    answers, cached = serve(llm, [job for job in jobs if not job.get("adapter")], adapters)
    more, again = serve(llm, [job for job in jobs if job.get("adapter")], adapters)
    return {**answers, **more}, cached + again


def serve(llm: Any, jobs: list[dict[str, Any]], adapters: list[str]) -> tuple[Answers, int]:
    """Jobs come in waves while others run; those to abort are aborted some steps after they came."""
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    engine = llm.llm_engine
    answers: Answers = {}
    leave: dict[int, list[str]] = {}
    cached, left = 0, list(jobs)
    for step in range(MOST_STEPS):
        for _ in range(8 if step % 4 == 0 else 0):
            if left:
                job = left.pop(0)
                number = job["number"]
                promise = {"ttft_s": (0.001, 0.5, 30.0)[number % 3], "tbt_s": (0.001, 0.05, 2.0)[number % 3]}
                params = SamplingParams(
                    **job["params"],
                    extra_args={"slidingserve": promise},
                    output_kind=RequestOutputKind.FINAL_ONLY,
                )
                if job.get("choice"):
                    params.structured_outputs = StructuredOutputsParams(choice=job["choice"])
                which = job.get("adapter", 0)
                lora = LoRARequest(f"adapter-{which}", which, adapters[which - 1]) if which else None
                prompt = {"prompt_token_ids": job["prompt"]}
                name = str(engine.add_request(f"job-{number}", prompt, params, lora_request=lora))
                if job.get("abort"):
                    leave.setdefault(step + 5 + number % 7, []).append(name)
        if not left and not engine.has_unfinished_requests():
            return answers, cached
        for output in engine.step():
            if output.finished:
                number = output.request_id.split("-")[1]
                answers[number] = [{"text": one.text, "ids": list(one.token_ids)} for one in output.outputs]
                cached += output.num_cached_tokens or 0
        if step in leave:
            engine.abort_request(leave.pop(step), internal=True)
    raise AssertionError(f"jobs are left after {MOST_STEPS} steps")


def chaos(seed: int) -> Callable[..., Any]:
    """A plan that is allowed and unreasonable: any order, any counts, decodes skipped, anybody relegated."""
    import numpy as np
    from slidingserve.core.columns import FIXED, UNSAID, Decision

    chance = np.random.default_rng(seed)

    def plan(columns: Any, weights: Any, settings: Any) -> Decision:
        count = len(columns.phase)
        tokens = np.zeros(count, np.int64)
        order = chance.permutation(np.flatnonzero(columns.phase < 2))
        left, admissions = int(chance.integers(1, columns.max_tokens + 1)), columns.max_admissions
        for row in np.flatnonzero(columns.phase == 2):
            if left and chance.random() < 0.8:
                tokens[row], left = 1, left - 1
        for row in order:
            waits = columns.phase[row] == 0
            if left and chance.random() < 0.7 and (admissions or not waits):
                admissions -= waits
                tokens[row] = chance.integers(1, min(columns.remaining[row], left) + 1)
                left -= tokens[row]
        if not tokens.any():
            tokens[0] = 1
        relegated = columns.relegated | (chance.random(count) < 0.02)
        return Decision(tokens, order, relegated, int(tokens.sum()), 0.0, FIXED, UNSAID)

    return plan


def ours(model: str, jobs: list[dict[str, Any]], adapters: list[str], folder: Path) -> dict[str, Any]:
    """Answers and what happened on the way, by policy, from one engine whose policy is switched."""
    from prometheus_client import REGISTRY
    from slidingserve import policies
    from slidingserve.server.launch import SCHEDULER
    from slidingserve.server.runtime import Runtime

    from tests.engine.cores import write_config

    runtime = Runtime(folder, folder / "config")
    runtime.process_dir.mkdir(parents=True)
    write_config(folder / "config")
    os.environ.update(runtime.to_env())
    options = {"max_num_batched_tokens": BATCH, "block_size": 32, "num_gpu_blocks_override": BLOCKS}
    llm = build(model, SCHEDULER, enable_prefix_caching=True, **options)
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    agent, preempt, preempted = scheduler.agent, scheduler._preempt_request, [0]

    def counted(*args: Any, **kwargs: Any) -> None:
        preempted[0] += 1
        preempt(*args, **kwargs)

    def failures() -> float:
        return REGISTRY.get_sample_value("slidingserve_planner_errors_total", {"engine": "0"}) or 0.0

    scheduler._preempt_request = counted
    found: dict[str, Any] = {}
    for number, name in enumerate([*policies.names(), "chaos"], 2):
        policy = policies.DEFAULT_POLICY if name == "chaos" else name
        write_config(folder / "config", generation=number, policy=policy, chunk={"minTokens": 8})
        agent.live.read()
        agent._changed(agent.live.view)
        if name == "chaos":
            agent.force = agent.force._replace(plan=chaos(1))
        preempted[0], before = 0, failures()
        shuffled = jobs if name == "fcfs" else reordered(jobs, number)
        answers, cached = answer(llm, shuffled, adapters)
        found[name] = {
            "answers": answers,
            "preempted": preempted[0],
            "cached": cached,
            "failures": failures() - before,
        }
    return found


def reordered(jobs: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """The same jobs in another order of arrival."""
    return random.Random(seed).sample(jobs, len(jobs))


def main(model: str, jobs_file: str, out: str) -> None:
    """Write {"stock": answers, "faulty": answers, "ours": {policy: ...}}."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_PLUGINS"] = "slidingserve"
    document = json.loads(Path(jobs_file).read_text())
    jobs, adapters = document["jobs"], document["adapters"]
    for number, job in enumerate(jobs):
        job["number"] = number
    found: dict[str, Any] = {"ours": ours(model, jobs, adapters, Path(out).parent / "state")}
    stock = build(model, None, max_num_batched_tokens=2048, enable_prefix_caching=False)
    found["stock"] = answer(stock, jobs, adapters)[0]
    faulty = build(model, "tests.engine.faulty.FaultyScheduler", max_num_batched_tokens=BATCH)
    plain = [job for job in jobs if set(job) == {"prompt", "params", "number"}]
    found["faulty"] = answer(faulty, plain, adapters)[0]
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
