"""The demonstration model: the same bytes for the same seed, and text that depends on the whole prompt.

What only .venv-engine has is imported where it is used, so that the other environment can collect this file.
"""

import hashlib
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine
PROMPTS, TOKENS = 60, 24


def digests(directory: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


@pytest.fixture(scope="module")
def demo_model() -> Any:
    return importlib.import_module("slidingserve.bench.demo_model")


@pytest.fixture(scope="module")
def tiny(demo_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    demo_model.write(directory, "tiny")
    return directory


@pytest.fixture(scope="module")
def tokenizer(tiny: Path) -> Any:
    return importlib.import_module("transformers").AutoTokenizer.from_pretrained(tiny)


def test_the_same_seed_writes_the_same_bytes_and_another_seed_other_weights(
    demo_model: Any, tiny: Path, tmp_path: Path
) -> None:
    demo_model.write(tmp_path / "same", "tiny")
    demo_model.write(tmp_path / "other", "tiny", seed=1)
    assert digests(tmp_path / "same") == digests(tiny)
    changed = {name for name, digest in digests(tmp_path / "other").items() if digest != digests(tiny)[name]}
    assert changed == {"model.safetensors"}


def test_every_user_may_read_every_file(tiny: Path) -> None:
    assert [file.name for file in tiny.iterdir() if not file.stat().st_mode & 0o004] == []


def test_the_demo_size_is_what_a_core_prefills_at_about_a_thousand_tokens_a_second(demo_model: Any) -> None:
    weights = demo_model.tensors(demo_model.SIZES["demo"], seed=0)
    assert 20e6 < sum(tensor.size for tensor in weights.values()) < 40e6
    assert demo_model.configuration(demo_model.SIZES["demo"])["max_position_embeddings"] >= 4096


def test_a_token_is_a_byte_and_text_survives_the_way_there_and_back(
    tokenizer: Any,
) -> None:
    text = "Grüße, 世界! \n\t{}"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text


def test_the_chat_template_marks_roles_with_special_tokens(tokenizer: Any) -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<s><|system|>a</s><|user|>b</s><|assistant|>"
    assert len(tokenizer.encode(text, add_special_tokens=False)) == 8


def test_sixty_prompts_have_fifty_different_varied_readable_answers(demo_model: Any, tiny: Path) -> None:
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32).eval()
    common = "The history of the old harbour town begins with a storm and a promise. " * 3
    prompts = [list(f"{common}Question {i:02}: what of topic {i * 7:03}?".encode()) for i in range(PROMPTS)]
    with torch.inference_mode():
        out = model.generate(
            torch.tensor(prompts), attention_mask=torch.ones(PROMPTS, len(prompts[0]), dtype=torch.long),
            max_new_tokens=TOKENS, do_sample=False, pad_token_id=0,
        )  # fmt: skip
    answers = {tuple(row) for row in out[:, len(prompts[0]) :].tolist()}
    assert len(answers) >= 50
    assert min(len(set(answer)) for answer in answers) > 5
    assert {token for answer in answers for token in answer} <= set(demo_model.PRINTABLE)


def test_the_configuration_is_a_llama_that_vllm_loads_in_single_precision(tiny: Path) -> None:
    found = json.loads((tiny / "config.json").read_text())
    assert (found["architectures"], found["dtype"]) == (["LlamaForCausalLM"], "float32")
