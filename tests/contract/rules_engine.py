"""Rules of names, models, engines, classes and the scheduler: one manifest taken, one refused."""

from __future__ import annotations

from tests.contract.rules import SLO, Rule, slo
from tests.contract.space import spec

LORA = {"name": "sql", "uri": "hf://org/adapter"}
ENV_KEY = {"secretKeyRef": {"name": "s", "key": "k"}}
BOTH = {**ENV_KEY, "fieldRef": {"fieldPath": "status.podIP"}}

RULES = [
    Rule(
        "metadata.name", "a2345678901234567890123456789012345678901234567890", "9chat", "start with a letter"
    ),
    Rule("metadata.name", "chat", "a" * 51, "at most 50 lower-case letters"),
    Rule("metadata.name", "chat", "chat.v2", "digits and hyphens"),
    Rule("spec.model", {"uri": "hf://org/name"}, None, "spec.model.uri is missing: say which model to serve"),
    Rule("spec.model", {"uri": "hf://org/name"}, {}, "spec.model.uri is missing: say which model to serve"),
    Rule(
        "spec.model.uri",
        "hf://meta-llama/Llama-3.1-8B",
        "s3://bucket/x",
        "model.uri must be hf://organisation/name",
    ),
    Rule("spec.model.uri", "pvc://claim/a/b", "pvc:///x", "pvc://claim/path or file:///absolute/path"),
    Rule("spec.model.uri", "file:///models/demo", "file://models/demo", "file:///absolute/path"),
    Rule("spec.model.uri", "hf://org/name", "hf://org/name; rm -rf", "model.uri must be"),
    Rule("spec.model.name", "demo", "", "at least 1 chars"),
    Rule(
        "spec.model.tokenSecretRef", {"name": "hf"}, {"key": "token"}, "tokenSecretRef.name: Required value"
    ),
    Rule("spec.engine.tensorParallelSize", 1, 0, "engine.tensorParallelSize must be at least 1"),
    Rule("spec.engine.tensorParallelSize", 64, 65, "less than or equal to 64"),
    Rule(
        "spec.engine.accelerator",
        "amd.com/gpu",
        "gpu",
        "must be cpu, claims or a resource name such as nvidia.com/gpu",
    ),
    Rule("spec.engine.maxModelLength", 1, 0, "greater than or equal to 1"),
    Rule("spec.engine.extraArgs", ["--max-num-seqs=4"], ["--port=1"], "engine.extraArgs must not set what"),
    Rule("spec.engine.extraArgs", ["--dtype", "float32"], ["--tensor-parallel-size", "2"], "use the fields"),
    Rule("spec.engine.env", [{"name": "A_1", "value": ""}], [{"name": "1A"}], "should match"),
    Rule(
        "spec.engine.env", [{"name": "A"}, {"name": "B"}], [{"name": "A"}, {"name": "A"}], "Duplicate value"
    ),
    Rule(
        "spec.engine",
        {"accelerator": "nvidia.com/gpu", "resources": {"limits": {"memory": "1Gi"}}},
        {"accelerator": "nvidia.com/gpu", "resources": {"requests": {"nvidia.com/gpu": 2}}},
        "leave the accelerator out of engine.resources",
    ),
    Rule("spec.engine.tolerations", [{"operator": "Exists"}], [{"operator": "Is"}], "supported values"),
    Rule("spec.engine.startupTimeoutSeconds", 30, 29, "greater than or equal to 30"),
    Rule("spec.engine.drainTimeoutSeconds", 0, -1, "greater than or equal to 0"),
    Rule("spec.replicas", 0, -1, "greater than or equal to 0"),
    Rule("spec.sloClasses", slo(), [], "at least 1 items"),
    Rule("spec.sloClasses", slo(), None, "spec.sloClasses: Required value"),
    Rule("spec.sloClasses", [SLO, {**SLO, "name": "other"}], [SLO, SLO], "Duplicate value"),
    Rule("spec.sloClasses", slo(name="a-1"), slo(name="Dialogue"), "should match"),
    Rule(
        "spec.sloClasses",
        slo(ttft={"milliseconds": 0.5}),
        slo(ttft={}),
        "ttft needs exactly one of milliseconds",
    ),
    Rule("spec.sloClasses", slo(), slo(ttft={"milliseconds": 1, "slowdown": 2}), "ttft needs exactly one of"),
    Rule("spec.sloClasses", slo(), slo(ttft={"slowdown": 0.5}), "greater than or equal to 1"),
    Rule("spec.sloClasses", slo(tbtMilliseconds=0.1), slo(tbtMilliseconds=0), "greater than 0"),
    Rule(
        "spec.sloClasses", slo(), [{"name": "a", "ttft": {"slowdown": 5}}], "tbtMilliseconds: Required value"
    ),
    Rule("spec.sloClasses", slo(objectivePercent=99.9), slo(objectivePercent=100), "less than 100"),
    Rule("spec.defaultClass", "dialogue", "absent", "defaultClass must be the name of one of sloClasses"),
    Rule("spec.scheduler.policy", "qoserve", "edf", 'supported values: "slidingserve_paper", "sarathi_edf"'),
    Rule("spec.scheduler.alpha", 0.7, "abc", "must be of type number"),
    Rule("spec.scheduler.alpha", 10, 0, "greater than 0"),
    Rule("spec.scheduler.alpha", 0.01, 10.5, "less than or equal to 10"),
    Rule("spec.scheduler.predictor.refreshSeconds", 1.5, 0.5, "greater than or equal to 1"),
    Rule("spec.scheduler.chunk.minTokens", 1, 0, "greater than or equal to 1"),
    Rule(
        "spec.scheduler.chunk",
        {"minTokens": 64, "maxTokens": 64},
        {"minTokens": 65, "maxTokens": 64},
        "scheduler.chunk.minTokens must not be above scheduler.chunk.maxTokens",
    ),
    Rule("spec.model.dtype", "bfloat16", "int8", "supported values"),
    Rule("spec.model.quantization", "fp8", "FP8!", "should match"),
    Rule(
        "spec",
        {
            **spec(),
            "model": {"uri": "hf://a/b", "dtype": "auto"},
            "engine": {"extraArgs": ["--quantization=fp8"]},
        },
        {
            **spec(),
            "model": {"uri": "hf://a/b", "dtype": "auto"},
            "engine": {"extraArgs": ["--dtype", "half"]},
        },
        "model.dtype and --dtype in engine.extraArgs say the same: leave one out",
    ),
    Rule(
        "spec",
        {**spec(), "model": {"uri": "hf://a/b", "quantization": "fp8"}},
        {
            **spec(),
            "model": {"uri": "hf://a/b", "quantization": "fp8"},
            "engine": {"extraArgs": ["--quantization=awq"]},
        },
        "model.quantization and --quantization in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine.accelerator",
        "nvidia.com/mig-3g.40gb",
        "nvidia.com/",
        "must be cpu, claims or a resource name",
    ),
    Rule("spec.engine.pipelineParallelSize", 1, 0, "greater than or equal to 1"),
    Rule(
        "spec.engine.extraArgs",
        ["--max_num_seqs=4"],
        ["--served_model_name=x"],
        "use the fields of the resource",
    ),
    Rule("spec.engine.extraArgs", [], ["-pp=2"], "pipeline-parallel-size"),
    Rule("spec.engine.maxNumSeqs", 1, 0, "greater than or equal to 1"),
    Rule("spec.engine.maxNumBatchedTokens", 1, 0, "greater than or equal to 1"),
    Rule("spec.engine.gpuMemoryUtilization", 1, 1.01, "less than or equal to 1"),
    Rule("spec.engine.gpuMemoryUtilization", 0.5, 0, "greater than 0"),
    Rule(
        "spec.engine",
        {"maxNumSeqs": 4, "extraArgs": ["--max-num-seqs-x"]},
        {"maxNumSeqs": 4, "extraArgs": ["--max_num_seqs=8"]},
        "engine.maxNumSeqs and --max-num-seqs in engine.extraArgs say the same: leave one out",
    ),
    Rule(
        "spec.engine",
        {"maxNumBatchedTokens": 4},
        {"maxNumBatchedTokens": 4, "extraArgs": ["--max-num-batched-tokens", "8"]},
        "engine.maxNumBatchedTokens and --max-num-batched-tokens in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine",
        {"extraArgs": ["--gpu-memory-utilization=0.5"]},
        {"gpuMemoryUtilization": 0.5, "extraArgs": ["--gpu-memory-utilization=0.5"]},
        "engine.gpuMemoryUtilization and --gpu-memory-utilization in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine",
        {"extraArgs": ["--lora-modules", "a=b"]},
        {"loraAdapters": [LORA], "extraArgs": ["--lora-modules", "a=b"]},
        "engine.loraAdapters and --lora-modules in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine.loraAdapters", [LORA], [{**LORA, "uri": "s3://x"}], "engine.loraAdapters[].uri must be"
    ),
    Rule("spec.engine.loraAdapters", [LORA, {**LORA, "name": "b"}], [LORA, LORA], "Duplicate value"),
    Rule("spec.engine.loraAdapters", [LORA], [{**LORA, "name": "a=b"}], "should match"),
    Rule("spec.engine.imagePullPolicy", "Never", "Sometimes", "supported values"),
    Rule("spec.engine.imagePullSecrets", [{"name": "r"}], [{"name": ""}], "at least 1 chars"),
    Rule(
        "spec.engine.env",
        [{"name": "A", "valueFrom": ENV_KEY}],
        [{"name": "A", "value": "x", "valueFrom": ENV_KEY}],
        "engine.env needs either value or valueFrom for a variable, not both",
    ),
    Rule(
        "spec.engine.env",
        [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}}],
        [{"name": "A", "valueFrom": BOTH}],
        "valueFrom needs exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef",
    ),
    Rule(
        "spec.engine.env",
        [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}}],
        [{"name": "A", "valueFrom": {}}],
        "valueFrom needs exactly one of",
    ),
    Rule(
        "spec.engine.envFrom",
        [{"prefix": "P_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}],
        [{"prefix": "P_"}],
        "engine.envFrom needs exactly one of secretRef and configMapRef in each entry",
    ),
    Rule(
        "spec.engine.resources",
        {"limits": {"cpu": "1500m", "memory": "2.5Gi"}},
        {"limits": {"memory": "16 GB"}},
        "engine.resources.limits must hold quantities of 0 or more such as 500m, 2 or 16Gi",
    ),
    Rule(
        "spec.engine.resources",
        {"requests": {"cpu": 2, "memory": "1e9"}},
        {"requests": {"memory": "much"}},
        "engine.resources.requests must hold quantities",
    ),
    Rule(
        "spec.engine.sharedMemorySize",
        1073741824,
        "2GB",
        "engine.sharedMemorySize must be a quantity above 0",
    ),
    Rule("spec.engine.sharedMemorySize", "2Gi", 0, "engine.sharedMemorySize must be a quantity above 0"),
]
