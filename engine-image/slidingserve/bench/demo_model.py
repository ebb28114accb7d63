"""Writes the demonstration model: a Llama of random weights that answers fast, and each prompt differently.

Place in the flow: run when the CPU image is built and by tests that need a model that no one has to download.
The model says nothing sensible; it costs real time, as a real one does, and its greedy output depends on
every part of the prompt, so that a scheduling fault (a lost, doubled or misplaced chunk) changes the text.
Imports nothing of ours: the image build runs this file alone.

One token is one byte of UTF-8, so the length of a prompt in tokens is its length in bytes. The rows of the
output layer are zero for all but printable ASCII: greedy text is readable and runs to `max_tokens`, since the
end token never wins.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ("<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>")
PRINTABLE = range(0x20, 0x7F)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<|{{ message.role }}|>{{ message.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True)
class Size:
    """Dimensions of a Llama; heads are 64 wide unless `hidden` is smaller."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    positions: int = 8192
    vocabulary: int = 320  # bytes and special tokens, rounded up to split over tensor parallel ranks


SIZES = {
    "demo": Size(hidden=512, intermediate=1408, layers=8, heads=8),
    "tiny": Size(hidden=128, intermediate=256, layers=2, heads=4),
}


def tensors(size: Size, seed: int) -> dict[str, NDArray[np.float32]]:
    """The weights by their names in a Llama checkpoint, float32, the same for the same seed.

    The gains make attention pick single tokens instead of averaging over the prompt (an average says the same
    of all long prompts), and keep the embedding small beside what the layers add (else only the last token
    would count).
    """
    generator = np.random.default_rng(seed)

    def normal(rows: int, columns: int, gain: float) -> NDArray[np.float32]:
        scale = np.float32(gain / columns**0.5)
        return generator.standard_normal((rows, columns), dtype=np.float32) * scale

    ones = np.ones(size.hidden, dtype=np.float32)
    embedding = normal(size.vocabulary, size.hidden, gain=0.2 * size.hidden**0.5)
    head = np.zeros_like(embedding)
    vocabulary = _vocabulary()
    rows = [vocabulary[_byte_characters()[byte]] for byte in PRINTABLE]
    head[rows] = normal(len(rows), size.hidden, gain=5)
    found = {"model.embed_tokens.weight": embedding, "model.norm.weight": ones, "lm_head.weight": head}
    for layer in range(size.layers):
        prefix = f"model.layers.{layer}"
        for name, gain in (("q", 2.0), ("k", 2.0), ("v", 1.0), ("o", 1.0)):
            found[f"{prefix}.self_attn.{name}_proj.weight"] = normal(size.hidden, size.hidden, gain)
        found[f"{prefix}.mlp.gate_proj.weight"] = normal(size.intermediate, size.hidden, 1.0)
        found[f"{prefix}.mlp.up_proj.weight"] = normal(size.intermediate, size.hidden, 1.0)
        found[f"{prefix}.mlp.down_proj.weight"] = normal(size.hidden, size.intermediate, 2.0)
        found[f"{prefix}.input_layernorm.weight"] = ones
        found[f"{prefix}.post_attention_layernorm.weight"] = ones
    return found


def configuration(size: Size) -> dict[str, object]:
    """The content of config.json."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": size.vocabulary,
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.heads,
        "head_dim": size.hidden // size.heads,
        "max_position_embeddings": size.positions,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": _vocabulary()["<s>"],
        "eos_token_id": _vocabulary()["</s>"],
        "dtype": "float32",
    }


def _byte_characters() -> dict[int, str]:
    """The printable character by which byte-level tokenizers write each byte (GPT-2's table)."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = (byte for byte in range(256) if byte not in kept)
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(moved)}


def _vocabulary() -> dict[str, int]:
    return {character: byte for byte, character in _byte_characters().items()} | {
        name: 256 + i for i, name in enumerate(SPECIAL)
    }


def tokenizer() -> Tokenizer:
    """A byte-level BPE tokenizer without merges: one token per byte, plus the special tokens."""
    made = Tokenizer(models.BPE(vocab=_vocabulary(), merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    return made


def write(directory: Path, size: str = "demo", seed: int = 0) -> None:
    """Write config, weights and tokenizer of the model `size` to `directory` (made if absent)."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "config.json": configuration(SIZES[size]),
        "generation_config.json": {"bos_token_id": 256, "eos_token_id": 257},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "model_max_length": SIZES[size].positions,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    }
    for name, content in texts.items():
        (directory / name).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    tokenizer().save(str(directory / "tokenizer.json"))
    weights = directory / "model.safetensors"
    save_file(tensors(SIZES[size], seed), weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # the library writes 0600, and the image's user is another than its builder


def main() -> None:
    """Command line: `python -m slidingserve.bench.demo_model OUT [--size demo|tiny] [--seed N]`."""
    parser = argparse.ArgumentParser(
        description="Write the demonstration model: Llama, random weights, float32"
    )
    parser.add_argument("out", type=Path, help="directory to write to")
    parser.add_argument("--size", choices=sorted(SIZES), default="demo")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write(arguments.out, arguments.size, arguments.seed)


if __name__ == "__main__":
    main()
