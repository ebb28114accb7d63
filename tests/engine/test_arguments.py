"""What is refused at apply goes by the names that vLLM's real parser takes, and the gate by its real
configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slidingserve.vllm_adapter import gate, unplanned

ROWS = {row.name: row for row in unplanned.CONFIG_ROWS}


@pytest.fixture(scope="module")
def parser() -> Any:
    """vLLM's own, of `vllm serve`."""
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return ServeSubcommand().subparser_init(FlexibleArgumentParser().add_subparsers())


def test_the_names_that_abbreviations_are_worked_out_from_are_those_of_the_real_parser(parser: Any) -> None:
    names = sorted(set(parser._option_string_actions) - {"-h", "--help"})
    path = Path(unplanned.__file__).with_name(unplanned.VLLM_ARGUMENTS)
    wanted = json.dumps(names, indent=0) + "\n"
    assert path.read_text() == wanted, "write the parser's names into this file, then `make generate`"


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--speculative-config", '{"method": "mtp"}'], "speculative_config", {"method": "mtp"}),
        (["--speculative_config.method", "mtp"], "speculative_config", {"method": "mtp"}),
        (["--specu.method=mtp"], "speculative_config", {"method": "mtp"}),
        (["-sc", '{"method": "mtp"}'], "speculative_config", {"method": "mtp"}),
        (["-s", '{"method": "mtp"}'], "speculative_config", {"method": "mtp"}),
        (["--spec-me", "mtp"], "spec_method", "mtp"),
        (["--kv_offloading-s=8"], "kv_offloading_size", 8),
        (["--scheduli=priority"], "scheduling_policy", "priority"),
        (["--ru", "pooling"], "runner", "pooling"),
        (["--no-enable_ch"], "enable_chunked_prefill", False),
        (["-t", "2"], "tensor_parallel_size", 2),
        (["--hos=127.0.0.1"], "host", "127.0.0.1"),
        (["-n2"], "nnodes", 2),
        (["-qfp8"], "quantization", "fp8"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_real_parser_takes_the_spellings_that_the_resource_refuses(
    parser: Any, words: list[str], field: str, value: object
) -> None:
    assert getattr(parser.parse_args(words), field) == value


def test_a_value_that_is_refused_is_one_that_the_parser_knows(parser: Any) -> None:
    for row in unplanned.CONFIG_ROWS:
        for argument in row.arguments:
            action = parser._option_string_actions[argument.name]
            if argument.value:
                assert set(argument.value.split("|")) <= set(action.choices)


TEXT = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "max_position_embeddings": 512,
}  # fmt: skip
MIXED = {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], **TEXT, "sliding_window": 64}
MIXED |= {"layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 16}
HYBRID = {"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], **TEXT}
HYBRID |= {"layer_types": ["linear_attention", "full_attention"], "num_experts": 0}
# One whose code needs no torchvision, which the CPU build comes without.
VISION = {
    "model_type": "blip-2", "architectures": ["Blip2ForConditionalGeneration"], "num_query_tokens": 4,
    "text_config": {"model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 64,
                    "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512,
                    "word_embed_proj_dim": 64, "max_position_embeddings": 512},
    "vision_config": {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
                      "num_attention_heads": 4, "image_size": 28, "patch_size": 14},
    "qformer_config": {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
                       "num_attention_heads": 4, "vocab_size": 512, "encoder_hidden_size": 64},
}  # fmt: skip


def told(shape: dict[str, Any], directory: Path, **options: Any) -> str | None:
    """What the gate says of a model by its config.json alone: no weights are there."""
    from vllm.engine.arg_utils import EngineArgs

    (directory / "config.json").write_text(json.dumps(shape))
    arguments = EngineArgs(
        model=str(directory), skip_tokenizer_init=True, max_model_len=256, dtype="float32", **options
    )
    return gate.check_config(arguments.create_engine_config())


def test_layers_with_a_sliding_window_beside_full_ones_are_planned(tmp_path: Path) -> None:
    assert told(MIXED, tmp_path) is None


def test_a_hybrid_of_attention_and_state_is_told_before_weights_load(tmp_path: Path) -> None:
    assert told(HYBRID, tmp_path) == ROWS["Mamba and hybrid models"].sentence


def test_a_vision_language_model_is_offered_exactly_the_flag_that_makes_it_plannable(tmp_path: Path) -> None:
    sentence = told(VISION, tmp_path)
    assert sentence == ROWS["multimodal models"].sentence
    assert [word for word in sentence.split() if word.startswith("--")] == ["--language-model-only"]
    assert told(VISION, tmp_path, language_model_only=True) is None
