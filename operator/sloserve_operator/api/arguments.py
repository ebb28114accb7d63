"""Rules over `spec.engine.extraArgs`, words that go to vLLM's command line as they are; used by `spec_engine`
and `spec`.

What an engine would end over is refused when it is applied. The API server sees words, so a rule must know
every spelling that vLLM's parser takes: abbreviations down to the shortest that only one argument begins
with, _ for -, keys behind a point (`--speculative-config.method`), values behind = or as the next word. The
names of vLLM's arguments and the table of what cannot be planned come from the engine (`make generate`).
"""

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from .rules import cel

_TABLE: dict[str, Any] = json.loads(files(__package__).joinpath("unplanned.json").read_text(encoding="utf-8"))
VLLM: list[str] = _TABLE["vllmArguments"]
FALLBACK = "--fallback"
BACK = "to serve with vLLM's own scheduler"
# How a user of the resource says what the engine's sentences say in arguments.
FIELDS = {
    "--tensor-parallel-size": "engine.tensorParallelSize",
    "--pipeline-parallel-size": "engine.pipelineParallelSize",
}

# Set by the operator or by `slidingserve serve`. A * stands for all arguments that begin so.
OWN = (
    "--host", "--port", "--uds", "--served-model-name", "--model", "--max-model-len", "--revision",
    "--shutdown-timeout", "--slo-config", "--state-dir", "--scheduler-cls", "--middleware",
    "--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp",
)  # fmt: skip
WIDER = (
    "--data-parallel-*", "-dp*", "--prefill-context-parallel-size", "-pcp",
    "--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port",
)  # fmt: skip
SILENT = ("--headless", "--grpc", "--ssl-*")
# Fields that may be left to extraArgs, by the arguments that they become.
ARGUMENTS = {
    "maxNumSeqs": ("--max-num-seqs",),
    "maxNumBatchedTokens": ("--max-num-batched-tokens",),
    "gpuMemoryUtilization": ("--gpu-memory-utilization",),
    "loraAdapters": ("--lora-modules",),
}


def shortest(name: str) -> int:
    """Length of the shortest abbreviation of an argument (or of a family, with *) that the parser takes."""
    stem = name.removesuffix("*")
    family = name.endswith("*")
    dashes = len(stem) - len(stem.lstrip("-"))
    others = [
        other
        for other in VLLM
        if other.startswith("--") == (dashes == 2)
        and not (other == stem or (family and other.startswith(stem)))
    ]
    for length in range(dashes + 1, len(stem)):
        if not any(other.startswith(stem[:length]) for other in others):
            return length
    return len(stem)


def spelling(name: str) -> str:
    """Regular expression (without ends) for every way to write an argument's name."""
    stem, end = name.removesuffix("*"), ".*" if name.endswith("*") else ""
    if len(name) == 2:
        return f"{name}.*"  # -n2 is -n 2
    least = shortest(name)
    whole = stem[:least] + "".join(f"({letter}" for letter in stem[least:])
    dashes = "--" if stem.startswith("--") else "-"
    whole = whole.removeprefix(dashes)
    if dashes == "--":
        whole = whole.replace("-", "[-_]")
    return f"{dashes}{whole}{end}" + ")?" * (len(stem) - least)


def given(names: Iterable[str], words: str = "self", value: str = "") -> str:
    """CEL: one of these arguments is among the words, with a value that matches if one is given."""
    spellings = "|".join(spelling(name) for name in names)
    if not value:
        return f"{words}.exists(word, word.matches('^({spellings})([=.]|$)'))"
    split = f"{words}.exists(word, word.matches('^({spellings})$'))"
    apart = f"{split} && {words}.exists(word, word.matches('^({value})$'))"
    return f"({words}.exists(word, word.matches('^({spellings})=({value})$')) || ({apart}))"


def fallen_back(words: str = "self") -> str:
    """CEL: the engine may run vLLM's own scheduler."""
    return f"{words}.exists(word, word == '{FALLBACK}')"


def once(owner: str, field: str, *arguments: str) -> dict[str, str]:
    """Rule: a setting is given as a field or in extraArgs. `owner` is the part that has the field."""
    part = "self" if owner == "engine" else f"self.{owner}"
    words = "self.extraArgs" if owner == "engine" else "self.engine.extraArgs"
    there = f"!has({part}.{field})" if owner == "engine" else f"!has({part}) || !has({part}.{field})"
    # Lists have [] by default, so what is empty is not given.
    empty = f" || {part}.{field}.size() == 0" if field == "loraAdapters" else ""
    return cel(
        f"{there}{empty} || !has({words}) || !{given(arguments, words)}",
        f"{owner}.{field} and {arguments[0]} in engine.extraArgs say the same: leave one out",
        field_path=".extraArgs" if owner == "engine" else ".engine.extraArgs",
    )


def _refused(names: Iterable[str], message: str) -> dict[str, str]:
    return cel(f"!{given(names)}", message)


def word_rules() -> list[dict[str, str]]:
    """Rules of the list: its form, what the resource decides, what must not stand in plain text."""
    return [
        cel(
            "self.all(word, !word.matches('^(--|\\\\s+|-[-_.A-Za-z0-9]+\\\\s.*)$'))",
            "engine.extraArgs holds one word in each entry: write --name=value, or --name and value as two"
            " entries",
        ),
        _refused(
            OWN,
            "engine.extraArgs must not set what the resource or the operator decides (host, port, model,"
            " revision, tensor-parallel-size, pipeline-parallel-size, served-model-name, max-model-len,"
            " shutdown-timeout, scheduler), abbreviated or not: use the fields of the resource",
        ),
        _refused(
            ("--config",),
            "engine.extraArgs must not name a file of arguments (--config), which no rule can read: write"
            " its arguments here, or use the fields of the resource",
        ),
        _refused(
            WIDER,
            "engine.extraArgs must not spread an engine over more accelerators than the resource asks for"
            " (data parallel, prefill context parallel, several nodes): the number of engines is"
            " spec.replicas; data parallel inside an engine is not a field yet",
        ),
        _refused(
            SILENT,
            "engine.extraArgs must leave the engine at plain HTTP (no --headless, --grpc or --ssl-...): its"
            " probes and the operator ask it so; end TLS in front of the Service",
        ),
        _refused(
            ("--api-key",),
            "engine.extraArgs must not hold a key in plain text (--api-key): put it into a Secret and use"
            " engine.apiKeySecretRef",
        ),
        _refused(
            ("--hf-token",),
            "engine.extraArgs must not hold a token in plain text (--hf-token): put it into a Secret and use"
            " model.tokenSecretRef",
        ),
        *(_unplanned(row) for row in _TABLE["rows"] if row["arguments"]),
    ]


def _unplanned(row: dict[str, Any]) -> dict[str, str]:
    """What the engine's gate would refuse at its start, in its words."""
    whole = [argument["name"] for argument in row["arguments"] if not argument["value"]]
    conditions = [given(whole)] if whole else []
    conditions += [
        given([argument["name"]], value=argument["value"])
        for argument in row["arguments"]
        if argument["value"]
    ]
    return cel(
        f"{fallen_back()} || !({' || '.join(conditions)})",
        f"engine.extraArgs: {row['sentence']}, or add {FALLBACK} {BACK}",
    )


def pipeline_rule() -> dict[str, str]:
    """The one field that leads to what cannot be planned; the gate's words, in fields."""
    sentence = next(row["sentence"] for row in _TABLE["rows"] if row["name"] == "pipeline parallel")
    for argument, field in FIELDS.items():
        sentence = sentence.replace(argument, field)
    return cel(
        "!has(self.pipelineParallelSize) || self.pipelineParallelSize <= 1"
        f" || (has(self.extraArgs) && {fallen_back('self.extraArgs')})",
        f"{sentence}, or add {FALLBACK} to engine.extraArgs {BACK}",
        field_path=".pipelineParallelSize",
    )
