"""What the planner cannot plan: one table, read by the gate at the start and by the resource at apply.

Each row has the sentence that both say. The gate looks at vLLM's configuration (`refuses`); the API server
sees only the command line, so a row also names the arguments that always lead there. `generated` exports
them, with the names of all of vLLM's arguments, from which the operator works out their abbreviations. The
table is in docs/reference/engine.md, which is tested against it. Imports no vLLM.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

VLLM_ARGUMENTS = "vllm_arguments.json"


class Argument(NamedTuple):
    """An argument of `vllm serve`, and which of its values are meant: a regular expression, "" for all."""

    name: str
    value: str = ""


class Row(NamedTuple):
    """One thing that the planner cannot plan."""

    name: str
    refuses: Callable[[Any], bool]
    sentence: str
    arguments: tuple[Argument, ...] = ()


CONFIG_ROWS = (
    Row(
        "priority scheduling",
        lambda c: c.scheduler_config.policy == "priority",
        "--scheduling-policy priority orders requests by itself; use the default fcfs",
        (Argument("--scheduling-policy", "priority"),),
    ),
    Row(
        "speculative decoding",
        lambda c: c.speculative_config is not None,
        "speculative decoding gives a step no fixed token count; drop --speculative-config, --spec-method,"
        " --spec-model and --spec-tokens",
        (
            Argument("--speculative-config"),
            Argument("-sc"),
            Argument("--spec-method"),
            Argument("--spec-model"),
            Argument("--spec-tokens"),
        ),
    ),
    Row(
        "pipeline parallel",
        lambda c: c.parallel_config.pipeline_parallel_size > 1,
        "pipeline parallel overlaps batches; use --tensor-parallel-size instead of --pipeline-parallel-size",
    ),
    Row(
        "KV connectors",
        lambda c: c.kv_transfer_config is not None or c.ec_transfer_config is not None,
        "a KV connector loads tokens no plan knows of; drop --kv-transfer-config, --kv-offloading-size and"
        " --ec-transfer-config",
        (
            Argument("--kv-transfer-config"),
            Argument("--kv-offloading-size"),
            Argument("--ec-transfer-config"),
        ),
    ),
    Row(
        "multimodal models",
        lambda c: c.model_config.supports_multimodal_inputs,
        "multimodal inputs have budgets of their own; add --language-model-only to serve this model for text"
        " alone, or serve a text model",
    ),
    Row(
        "encoder-decoder and pooling models",
        lambda c: c.model_config.is_encoder_decoder or c.model_config.runner_type != "generate",
        "only a model that generates token by token can keep this promise; serve a decoder-only model",
        (Argument("--runner", "pooling|draft"), Argument("--convert", "embed|classify")),
    ),
    Row(
        "diffusion models",
        lambda c: bool(c.model_config.is_diffusion),
        "a diffusion model has no token-by-token stream; serve an autoregressive model",
    ),
    Row(
        "chunked prefill off",
        lambda c: not c.scheduler_config.enable_chunked_prefill,
        "without chunked prefill no chunk can be sized; drop --no-enable-chunked-prefill",
        (Argument("--no-enable-chunked-prefill"),),
    ),
    Row(
        "Mamba and hybrid models",
        lambda c: bool(c.model_config.is_hybrid or c.model_config.is_attention_free),
        "state-space layers allow only block-aligned chunks; serve a model with attention in every layer",
    ),
)


def vllm_arguments() -> list[str]:
    """Names of all arguments that the tested `vllm serve` takes, long and short."""
    text = files(__package__).joinpath(VLLM_ARGUMENTS).read_text(encoding="utf-8")
    return [str(name) for name in json.loads(text)]


def exported() -> str:
    """The table for the operator, which imports nothing of the engine: JSON text."""
    rows = [
        {
            "name": row.name,
            "sentence": row.sentence,
            "arguments": [argument._asdict() for argument in row.arguments],
        }
        for row in CONFIG_ROWS
    ]
    return json.dumps({"rows": rows, "vllmArguments": vllm_arguments()}, indent=1) + "\n"
