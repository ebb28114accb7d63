"""Spellings that the rules over engine.extraArgs know, against an argparse parser with vLLM's names."""

from __future__ import annotations

import argparse
import re

import pytest
from sloserve_operator.api.arguments import OWN, SILENT, VLLM, WIDER, spelling, word_rules

SECRETS = ("--api-key", "--hf-token", "--config")
NAMES = [name for name in (*OWN, *WIDER, *SILENT, *SECRETS) if name in VLLM and len(name) > 2]


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    for name in VLLM:
        made.add_argument(name, dest=name)
    return made


def meant(parser: argparse.ArgumentParser, word: str) -> str:
    """The argument that a word stands for, "" where it is none or several."""
    try:
        found, rest = parser.parse_known_args([word, "x"])
    except (argparse.ArgumentError, SystemExit):
        return ""
    return "" if rest else next(name for name, value in vars(found).items() if value)


@pytest.mark.parametrize("name", NAMES)
def test_a_spelling_is_refused_if_and_only_if_the_parser_takes_it_for_the_argument(
    parser: argparse.ArgumentParser, name: str
) -> None:
    known = re.compile(f"^({spelling(name)})$")
    dashes = 2 if name.startswith("--") else 1
    for length in range(dashes + 1, len(name) + 1):
        word = name[:length]
        assert (meant(parser, word) == name) == bool(known.match(word)), word
        if dashes == 2:
            underscored = "--" + word[2:].replace("-", "_")
            assert bool(known.match(underscored)) == bool(known.match(word))


@pytest.mark.parametrize("family", ["--data-parallel-*", "-dp*", "--ssl-*"])
def test_a_family_stands_for_all_arguments_that_begin_so_and_for_no_other(family: str) -> None:
    known = re.compile(f"^({spelling(family)})$")
    stem = family.removesuffix("*")
    assert {name for name in VLLM if known.match(name)} == {name for name in VLLM if name.startswith(stem)}


def test_no_rule_refuses_an_argument_that_it_does_not_name() -> None:
    """Of all that vLLM takes, as it is written, the rules stop these and no more."""
    said = [part.partition("')")[0] for rule in word_rules() for part in rule["rule"].split("matches('")[1:]]
    patterns = [re.compile(found) for found in said if found.endswith("([=.]|$)")]
    stopped = {name for name in VLLM if any(pattern.match(name) for pattern in patterns)}
    allowed = {name for name in VLLM if name.startswith(("--data-parallel-", "-dp", "--ssl-"))}
    whole = {*OWN, *WIDER, *SILENT, *SECRETS, "-sc", "--no-enable-chunked-prefill"}
    whole |= {"--speculative-config", "--spec-method", "--spec-model", "--spec-tokens"}
    whole |= {"--kv-transfer-config", "--kv-offloading-size", "--ec-transfer-config"}
    assert stopped == (whole & set(VLLM)) | allowed
