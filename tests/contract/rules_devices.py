"""Rules of devices, users and address families: one manifest taken, one refused."""

from __future__ import annotations

from tests.contract.rules import Rule
from tests.contract.space import spec

GPUS = {"name": "gpus", "resourceClaimTemplateName": "two-gpus"}
STAGES = ["--fallback"]

RULES = [
    Rule("spec.service.ipFamilyPolicy", "SingleStack", "Both", "supported values"),
    Rule("spec.engine.runAs", "cluster", "1000", "supported values"),
    Rule(
        "spec.engine",
        {"resourceClaims": [GPUS], "accelerator": "claims"},
        {"resourceClaims": [GPUS], "accelerator": "cpu"},
        "engine.accelerator must be claims with engine.resourceClaims",
    ),
    Rule(
        "spec.engine",
        {"resourceClaims": [{**GPUS, "count": 2}], "tensorParallelSize": 2},
        {"resourceClaims": [{**GPUS, "count": 2}], "tensorParallelSize": 4},
        "the counts in engine.resourceClaims must add up to engine.tensorParallelSize times",
    ),
    Rule(
        "spec.engine",
        {
            "resourceClaims": [{**GPUS, "count": 2}, {**GPUS, "name": "b", "count": 4}],
            "tensorParallelSize": 2,
            "pipelineParallelSize": 3,
            "extraArgs": STAGES,
        },
        {"resourceClaims": [{**GPUS, "count": 2}, {**GPUS, "name": "b", "count": 4}]},
        "each rank of the engine needs a device",
    ),
    Rule(
        "spec.engine",
        {"resourceClaims": [{"name": "one", "resourceClaimName": "a"}]},
        {"resourceClaims": [{"name": "one"}]},
        "engine.resourceClaims needs in each entry exactly one of resourceClaimTemplateName",
    ),
    Rule("spec.engine", {"resourceClaims": [GPUS]}, {"resourceClaims": [GPUS, GPUS]}, "Duplicate value"),
    Rule(
        "spec",
        spec(engine={"accelerator": "claims"}, podTemplate={"spec": {"resourceClaims": [GPUS]}}),
        spec(engine={"accelerator": "claims"}, podTemplate={"spec": {}}),
        "engine.accelerator claims needs the claims in engine.resourceClaims",
    ),
]
