"""`slidingserve serve --emulate PROFILE`: vLLM without a GPU, at a GPU's speed.

Place in the flow: the launcher checks the profile, writes a model directory without weights and names the
executor that sleeps instead of computing (`vllm_adapter.timed_executor`); each process of the engine reads
the `Emulation` back from its environment. All else (API server, scheduler, KV cache, metrics) is real.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from slidingserve.command_line import missing

if TYPE_CHECKING:
    from slidingserve.hardware import Hardware

PROFILE = "SLIDINGSERVE_EMULATE"
NOISE = "SLIDINGSERVE_EMULATE_NOISE"
SEED = "SLIDINGSERVE_EMULATE_SEED"
LOG = "SLIDINGSERVE_EMULATE_LOG"

EXECUTOR = "slidingserve.vllm_adapter.timed_executor.TimedExecutor"
REPLACED = ("--tensor-parallel-size", "-tp", "--revision", "--distributed-executor-backend", "--load-format")
"""The user's values of these are dropped: the profile has the GPUs, and there are no weights to find."""


class EmulationError(ValueError):
    """A profile or setting that cannot be emulated; the text is one line for the user."""


@dataclass(frozen=True)
class Emulation:
    """What is emulated. `noise`: sigma of the lognormal factor on each batch's time; None: the profile's.

    `log`: file for one row a batch (see `vllm_adapter.emulated_device`), or None.
    """

    profile: str
    noise: float | None = None
    seed: int = 0
    log: Path | None = None

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Emulation | None:
        """Read what the launcher wrote; None where the engine is a real one."""
        if not env.get(PROFILE):
            return None
        noise, log = env.get(NOISE), env.get(LOG)
        return cls(
            env[PROFILE],
            float(noise) if noise else None,
            int(env.get(SEED) or 0),
            Path(log) if log else None,
        )

    def to_env(self) -> dict[str, str]:
        """Give the variables that `from_env` reads back."""
        env = {PROFILE: self.profile, SEED: str(self.seed)}
        if self.noise is not None:
            env[NOISE] = str(self.noise)
        if self.log is not None:
            env[LOG] = str(self.log)
        return env


def checked(emulation: Emulation) -> Hardware:
    """The hardware profile, an instance of `hardware.Hardware`. Raises EmulationError with the names there
    are."""
    from slidingserve import hardware

    if emulation.profile not in hardware.names():
        known = ", ".join(hardware.names())
        raise EmulationError(f"--emulate {emulation.profile}: there is no such profile; there are {known}")
    if emulation.log is not None and not emulation.log.absolute().parent.is_dir():
        raise EmulationError(f"--emulate-log {emulation.log}: its directory does not exist; make it first")
    return hardware.get(emulation.profile)


def writable(emulation: Emulation) -> None:
    """Whether this environment has what writes the model, which comes with vLLM. Raises EmulationError with
    what to install."""
    try:
        import_module("slidingserve.bench.demo_model")
    except ModuleNotFoundError as error:
        raise EmulationError(f"--emulate {emulation.profile}: {missing(error.name)}") from None


def fingerprint(emulation: Emulation) -> str:
    """Stands for the times of a profile with their noise: with other tables it is another device."""
    profile = checked(emulation)
    content = pickle.dumps((profile.timing, profile.noise_sigma, emulation.noise))
    return hashlib.sha256(content).hexdigest()[:16]


def vllm_arguments(profile: Hardware, name: str, user: Sequence[str], directory: Path) -> list[str]:
    """Write the model to `directory` and give vLLM's arguments: model, the user's, and ours where there are
    none.

    `name` is what clients call the model.
    """
    write_model(profile, directory)
    words = kept(user)
    given = {_option(word) for word in words}
    # As people would have to set it there: no request may outgrow the KV cache, less the block vLLM keeps.
    fits = profile.kv_tokens - profile.block_size
    defaults = {
        "--served-model-name": name,
        "--max-model-len": min(profile.max_model_len, fits),
        "--max-num-batched-tokens": profile.max_tokens,
        "--max-num-seqs": profile.max_requests,
        "--block-size": profile.block_size,
        "--distributed-executor-backend": EXECUTOR,
    }
    ours = [
        word for option, value in defaults.items() if option not in given for word in (option, str(value))
    ]
    return [str(directory), *words, *ours, "--enforce-eager"]


def kept(user: Sequence[str]) -> list[str]:
    """The user's arguments without those that an emulation replaces, given as two words or one."""
    words: list[str] = []
    value_follows = False
    for word in user:
        replaced = _option(word) in REPLACED
        if not replaced and not (value_follows and not word.startswith("-")):
            words.append(word)
        value_follows = replaced and "=" not in word
    return words


def _option(word: str) -> str:
    """The option's name as vLLM's help writes it; vLLM takes underscores too."""
    return word.partition("=")[0].replace("_", "-")


def write_model(profile: Hardware, directory: Path) -> None:
    """Write config.json in the profile's shape and a byte-level tokenizer; no weights.

    The vocabulary is the real model's in size, so clients may send any of its token ids; the tokenizer knows
    bytes and special tokens, and what is generated is one printable character a token.
    """
    from slidingserve.bench.demo_model import CHAT_TEMPLATE, tokenizer

    directory.mkdir(exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": profile.vocab,
        "hidden_size": profile.hidden,
        "intermediate_size": profile.ffn,
        "num_hidden_layers": profile.layers,
        "num_attention_heads": profile.heads,
        "num_key_value_heads": profile.kv_heads,
        "head_dim": profile.head_size,
        "max_position_embeddings": profile.max_model_len,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "bos_token_id": 256,
        "eos_token_id": 257,
        "dtype": "bfloat16",
    }
    tokens = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": profile.max_model_len,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    for file, content in (("config.json", config), ("tokenizer_config.json", tokens)):
        (directory / file).write_text(json.dumps(content, indent=2) + "\n")
    tokenizer().save(str(directory / "tokenizer.json"))
