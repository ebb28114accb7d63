"""Rules of engine.extraArgs and of fields beside it: one manifest taken, one refused."""

from __future__ import annotations

from typing import Any

from sloserve_operator.api.arguments import FALLBACK

from tests.contract.rules import Rule, slo
from tests.contract.space import spec

ARGS = "spec.engine.extraArgs"
OWN = "engine.extraArgs must not set what the resource or the operator decides"
WIDER = "engine.extraArgs must not spread an engine over more accelerators"
WORDS = "engine.extraArgs holds one word in each entry: write --name=value, or --name and value as two"
SPECULATION = (
    "engine.extraArgs: speculative decoding gives a step no fixed token count; drop --speculative-config,"
    " --spec-method, --spec-model and --spec-tokens, or add --fallback to serve with vLLM's own scheduler"
)
CONNECTORS = (
    "engine.extraArgs: a KV connector loads tokens no plan knows of; drop --kv-transfer-config,"
    " --kv-offloading-size and --ec-transfer-config, or add --fallback to serve with vLLM's own scheduler"
)
POOLING = "engine.extraArgs: only a model that generates token by token can keep this promise"
PRIORITY = "engine.extraArgs: --scheduling-policy priority orders requests by itself; use the default fcfs"
PIPELINE = (
    "pipeline parallel overlaps batches; use engine.tensorParallelSize instead of engine.pipelineParallelSize"
)
SHARED = "engine.sharedMemorySize must not be above engine.resources.limits.memory"
MTP = '{"method": "mtp", "num_speculative_tokens": 2}'
OFFLOADING = '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}'


def unplanned(says: str, *words: str) -> Rule:
    """Refused as it stands, taken where vLLM's own scheduler may serve."""
    return Rule(ARGS, [*words, FALLBACK], list(words), says)


def memory(limit: str, **engine: Any) -> dict[str, Any]:
    return {"resources": {"limits": {"memory": limit}}, **engine}


RULES = [
    # what the planner cannot plan, in every spelling
    unplanned(SPECULATION, "--speculative-config", MTP),
    unplanned(SPECULATION, f"--speculative_config={MTP}"),
    unplanned(SPECULATION, "--speculative-config.method", "mtp"),
    unplanned(SPECULATION, "--specu.method=mtp"),
    unplanned(SPECULATION, "--spec-t", "2"),
    unplanned(SPECULATION, "--spec_method=ngram"),
    unplanned(SPECULATION, "--spec-model=org/draft"),
    unplanned(SPECULATION, "-sc", MTP),
    unplanned(SPECULATION, f"-s={MTP}"),
    Rule(ARGS, ["--specialize-active-lora"], ["--spec-me=mtp"], SPECULATION),
    unplanned(CONNECTORS, "--kv-transfer-config", OFFLOADING),
    unplanned(CONNECTORS, "--kv_transfer_config.kv_connector=OffloadingConnector"),
    unplanned(CONNECTORS, "--kv-offloading-size=8"),
    unplanned(CONNECTORS, "--ec-t", OFFLOADING),
    unplanned(POOLING, "--runner", "pooling"),
    unplanned(POOLING, "--conv=embed"),
    Rule(ARGS, ["--runner=generate", "--convert", "none"], ["--run=pooling"], POOLING),
    unplanned(PRIORITY, "--scheduling-policy", "priority"),
    Rule(ARGS, ["--scheduling-policy=fcfs"], ["--scheduling_policy=priority"], PRIORITY),
    unplanned("without chunked prefill no chunk can be sized", "--no-enable-chunked-prefill"),
    Rule(ARGS, ["--enable-chunked-prefill"], ["--no-enable_ch"], "without chunked prefill no chunk"),
    Rule(
        "spec.engine",
        {"pipelineParallelSize": 2, "extraArgs": [FALLBACK]},
        {"pipelineParallelSize": 2},
        f"{PIPELINE}, or add --fallback to engine.extraArgs to serve with vLLM's own scheduler",
    ),
    # what the resource decides, abbreviated too
    *(
        Rule(ARGS, ["--seed=1"], words, OWN)
        for words in (
            ["--tensor-parallel-siz=4"],
            ["--te", "2"],
            ["--hos=127.0.0.1"],
            ["-tp=2"],
            ["-tp", "2"],
            ["-t", "2"],
            ["--max-m=9"],
            ["--model", "org/other"],
            ["--ud=/x"],
            ["--rev=v1"],
        )
    ),
    Rule(ARGS, ["--config-format=hf"], ["--config", "/etc/vllm.yaml"], "a file of arguments (--config)"),
    *(
        Rule(ARGS, ["--enable-expert-parallel"], words, WIDER)
        for words in (
            ["--data-parallel-size=2", "--enable-expert-parallel"],
            ["-dp", "2"],
            ["-dpl=1"],
            ["--data_parallel_rank=1"],
            ["--prefill-context-parallel-size=2"],
            ["-pc", "2"],
            ["--nnodes=2"],
            ["-n2"],
            ["-r", "1"],
            ["--master-addr=h"],
        )
    ),
    Rule(ARGS, ["-dcp", "1", "--dtype=half"], ["-dpb=ray"], WIDER),
    Rule(ARGS, ["--root-path=/v"], ["--headless"], "must leave the engine at plain HTTP"),
    Rule(ARGS, ["--grpc-port=1"], ["--ssl-keyfile=/k"], "must leave the engine at plain HTTP"),
    Rule(
        ARGS,
        ["--api-server-count=2"],
        ["--api-key=sekret"],
        "(--api-key): put it into a Secret and use engine.apiKeySecretRef",
    ),
    Rule(ARGS, [], ["--api_k", "sekret"], "must not hold a key in plain text"),
    Rule(
        ARGS, ["--hf-overrides={}"], ["--hf-token=hf_x"], "put it into a Secret and use model.tokenSecretRef"
    ),
    Rule(ARGS, ['--override-generation-config={"a": 1}'], ["--max-num-seqs 4"], WORDS),
    Rule(ARGS, ["--response-role", "an assistant"], ["   "], WORDS),
    Rule(ARGS, ["--chat-template", ""], ["--", "x"], WORDS),
    Rule(ARGS, ["-O3", "-ep", "-cc.mode=3"], ["-tp 2"], WORDS),
    Rule(
        "spec",
        {**spec(), "model": {"uri": "hf://a/b", "quantization": "fp8"}, "engine": {"extraArgs": ["-ep"]}},
        {**spec(), "model": {"uri": "hf://a/b", "quantization": "fp8"}, "engine": {"extraArgs": ["-qawq"]}},
        "model.quantization and --quantization in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine",
        {"maxNumSeqs": 4},
        {"maxNumSeqs": 4, "extraArgs": ["--max_num-seq=8"]},
        "engine.maxNumSeqs and --max-num-seqs in engine.extraArgs say the same",
    ),
    # what a pod would refuse later
    Rule(
        "metadata.name", "default-chat", "default", "metadata.name must not be default: every namespace has"
    ),
    Rule("spec.engine", memory("2Gi"), memory("64Mi", accelerator="cpu"), SHARED),
    Rule(
        "spec.engine",
        memory("64Mi", tensorParallelSize=2, sharedMemorySize="64Mi"),
        memory("64Mi", tensorParallelSize=2),
        SHARED,
    ),
    Rule(
        "spec.engine.resources",
        {"requests": {"cpu": "0.5"}},
        {"requests": {"cpu": 0.5}},
        'type integer,string: "number"',
    ),
    Rule(
        "spec.engine.resources",
        {"requests": {"cpu": 1}, "limits": {"cpu": "1"}},
        {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}},
        "requests must not be above engine.resources.limits",
    ),
    Rule(
        "spec.engine.resources",
        {"limits": {"cpu": 0}},
        {"limits": {"cpu": -1}},
        "limits must hold quantities of 0 or more",
    ),
    Rule(
        "spec.engine.nodeSelector",
        {"pool": "a.b_c-1"},
        {"pool": "a b"},
        "engine.nodeSelector must hold label values",
    ),
    Rule(
        "spec.service.labels", {"team": "l" * 63}, {"team": "l" * 64}, "service.labels must hold label values"
    ),
    Rule(
        "spec.podTemplate.metadata.labels",
        {"team": ""},
        {"team": "-x"},
        "podTemplate.metadata.labels must hold label values",
    ),
    Rule(
        "spec.engine.tolerations",
        [{"operator": "Exists"}],
        [{"value": "x"}],
        "engine.tolerations needs operator Exists in an entry without key",
    ),
    Rule(
        "spec.engine.tolerations",
        [{"key": "a", "value": "x"}],
        [{"key": "a", "operator": "Exists", "value": "x"}],
        "engine.tolerations must have no value with operator Exists",
    ),
    Rule(
        "spec.engine.tolerations",
        [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 3}],
        [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}],
        "engine.tolerations needs effect NoExecute beside",
    ),
    Rule("spec.model.uri", "pvc://claim/v1.2/b", "pvc://claim/../b", "without .."),
    Rule("spec.sloClasses", slo(weight=2), slo(weight="2"), "must be of type number"),
]
