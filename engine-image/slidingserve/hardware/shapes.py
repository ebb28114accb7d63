"""The two models of the paper by their shapes, and how many tokens of KV cache fit beside them."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1024**3
RESERVED = 1.2 * GIB
"""What activations and the CUDA context take of each GPU, in bytes. With it the formula below gives 41,024
tokens for Llama-3.1-8B on an RTX 4090, where vLLM 0.19 itself reported 41,408."""
UTILISATION = 0.9
"""vLLM's default share of GPU memory."""


@dataclass(frozen=True)
class Shape:
    """What of a model decides its times: sizes of its matrices and of its KV cache."""

    title: str
    slug: str
    """In the names of profiles."""
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_size: int
    vocab: int
    weight_bytes: float
    max_model_len: int

    @property
    def kv_bytes(self) -> int:
        """Bytes of KV cache of one token, all layers, 16-bit."""
        return self.layers * self.kv_heads * self.head_size * 2 * 2


LLAMA = Shape("Llama-3.1-8B", "llama3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, 16.06e9, 131072)
QWEN = Shape("Qwen2.5-7B", "qwen2.5-7b", 28, 3584, 18944, 28, 4, 128, 152064, 15.23e9, 32768)


def kv_tokens(shape: Shape, gpus: int, memory: float, block_size: int = 16) -> int:
    """Tokens of KV cache: what is left of `memory` bytes a GPU after weights and reserve, in whole blocks."""
    room = gpus * (memory * UTILISATION - RESERVED) - shape.weight_bytes
    return int(room / shape.kv_bytes) // block_size * block_size
