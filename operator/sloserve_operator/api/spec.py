"""`spec` of a SLOServe as users write it. Read by `desired` and `reconcile`, turned into schema by `crd`.

Python names are snake_case, the resource's are camelCase (aliases). Docstrings and descriptions are what
`kubectl explain` prints, so their first sentence stands alone. The marks hot, scale and restart say what a
change of the field does.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from .rules import CHANGE, REQUIRED_BY_RULE, cel, extra

NAME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
CPU = "cpu"
# Arguments that the operator or `slidingserve serve` decides itself.
OWN_ARGUMENTS = (
    "host|port|tensor-parallel-size|tp|served-model-name|max-model-len|revision|shutdown-timeout"
    "|slo-config|state-dir|scheduler-cls|middleware|uds"
)

Quantity = Annotated[int | str, Field(json_schema_extra={"maxLength": 32})]


class Model(BaseModel):
    """Base of every part: camelCase outside, unknown keys ignored (a newer CRD may know more)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class SecretKey(Model):
    """A key of a Secret in the resource's own namespace."""

    name: str = Field(description="Name of the Secret.", min_length=1, max_length=253)
    key: str = Field(default="token", description="Key within the Secret.", min_length=1, max_length=253)


class ModelSource(Model):
    """Which model is served, and under which name clients ask for it."""

    uri: str = Field(
        description="Where the weights are: hf://organisation/name, pvc://claim/path or file:///path/in/image.",
        max_length=512,
        json_schema_extra=extra(
            cel(
                "self.matches('^hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$')"
                " || self.matches('^pvc://[a-z0-9][-a-z0-9.]*(/[A-Za-z0-9._-]+)*$')"
                " || self.matches('^file://(/[A-Za-z0-9._-]+)+$')",
                "model.uri must be hf://organisation/name, pvc://claim/path or file:///absolute/path",
            ),
            **{REQUIRED_BY_RULE: True},
        ),
    )
    name: str | None = Field(
        default=None,
        description="Model name that clients send; by default organisation/name of hf://, else the last part of the path.",
        min_length=1,
        max_length=253,
    )
    revision: str | None = Field(
        default=None, description="Branch, tag or commit of an hf:// model.", min_length=1, max_length=128
    )
    token_secret_ref: SecretKey | None = Field(
        default=None,
        description="Secret with the hub's token for gated models; reaches the engine as HF_TOKEN.",
    )


class EnvVar(Model):
    """One environment variable of the engine container."""

    name: str = Field(description="Name of the variable.", pattern="^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)
    value: str = Field(default="", description="Its value.", max_length=4096)


class Resources(Model):
    """Requests and limits of the engine container, without the accelerator."""

    requests: dict[str, Quantity] | None = Field(
        default=None, description="What the scheduler reserves.", json_schema_extra={"maxProperties": 16}
    )
    limits: dict[str, Quantity] | None = Field(
        default=None,
        description="What the container may use at most.",
        json_schema_extra={"maxProperties": 16},
    )


class Toleration(Model):
    """A taint that the pods accept (Kubernetes' own Toleration)."""

    key: str | None = Field(
        default=None, description="Taint key; empty matches all with operator Exists.", max_length=253
    )
    operator: Literal["Exists", "Equal"] | None = Field(default=None, description="Equal unless given.")
    value: str | None = Field(default=None, description="Taint value for Equal.", max_length=63)
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Taint effect; empty matches all."
    )
    toleration_seconds: int | None = Field(default=None, description="Seconds to stay under NoExecute.")


class Engine(Model):
    """How one engine runs: accelerators, image, command line, placement. A change restarts the pods."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "!has(self.resources) || !has(self.accelerator) || self.accelerator == 'cpu'"
                " || ((!has(self.resources.limits) || !(self.accelerator in self.resources.limits))"
                " && (!has(self.resources.requests) || !(self.accelerator in self.resources.requests)))",
                "leave the accelerator out of engine.resources: its count is engine.tensorParallelSize",
                field_path=".resources",
            ),
        )
    )

    image: str | None = Field(
        default=None,
        description="Engine image; by default the one the operator was installed with.",
        min_length=1,
        max_length=512,
    )
    tensor_parallel_size: int = Field(
        default=1,
        description="Accelerators that one engine spans.",
        le=64,
        json_schema_extra=extra(
            cel(
                "self >= 1",
                "engine.tensorParallelSize must be at least 1: it is the number of accelerators of one engine",
            )
        ),
    )
    accelerator: str = Field(
        default="nvidia.com/gpu",
        description="Resource name of the accelerator, or cpu for the CPU build of the engine.",
        max_length=128,
        json_schema_extra=extra(
            cel(
                "self == 'cpu' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$')",
                "engine.accelerator must be cpu or a resource name such as nvidia.com/gpu",
            )
        ),
    )
    max_model_length: int | None = Field(
        default=None,
        description="Longest prompt plus answer in tokens; by default the model's own.",
        ge=1,
        le=100_000_000,
    )
    extra_args: list[Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=list,
        description="Further arguments of `vllm serve`, one word each.",
        max_length=64,
        json_schema_extra=extra(
            cel(
                f"self.all(word, !word.matches('^--?({OWN_ARGUMENTS})(=.*)?$'))",
                "engine.extraArgs must not set what the resource or the operator decides (host, port, tensor-parallel-size,"
                " served-model-name, max-model-len, revision, shutdown-timeout, scheduler): use the fields of the resource",
            ),
            x_kubernetes_list_type="atomic",
        ),
    )
    env: list[EnvVar] = Field(
        default_factory=list,
        description="Further environment of the engine; wins over the operator's defaults.",
        max_length=64,
        json_schema_extra=extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"]),
    )
    resources: Resources | None = Field(default=None, description="CPU and memory of the engine container.")
    shared_memory_size: Quantity = Field(
        default="2Gi",
        description="Size of /dev/shm, mounted when tensorParallelSize is above 1; counts as memory.",
    )
    node_selector: dict[str, Annotated[str, Field(max_length=63)]] | None = Field(
        default=None, description="Labels a node must bear.", json_schema_extra={"maxProperties": 32}
    )
    tolerations: list[Toleration] = Field(
        default_factory=list,
        description="Taints that the pods accept.",
        max_length=32,
        json_schema_extra=extra(x_kubernetes_list_type="atomic"),
    )
    startup_timeout_seconds: int = Field(
        default=1800,
        description="Time for download, load, compilation and calibration before a start is given up.",
        ge=30,
        le=86_400,
    )
    drain_timeout_seconds: int = Field(
        default=60, description="Time for running requests to end before an engine is stopped.", ge=0, le=3600
    )


class TTFT(Model):
    """Limit of the time to first token: exactly one of its fields."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "has(self.milliseconds) != has(self.slowdown)",
                "ttft needs exactly one of milliseconds (a fixed limit) and slowdown (a multiple of the time"
                " the prompt would take alone)",
            )
        )
    )

    milliseconds: float | None = Field(
        default=None, description="Fixed limit in milliseconds.", gt=0, le=86_400_000
    )
    slowdown: float | None = Field(
        default=None,
        description="Limit as a multiple of the time the prompt would take alone on this engine.",
        gt=0,
        le=100_000,
    )


class SLOClass(Model):
    """A class of requests and its promise; clients choose it with the header x-slo-class."""

    name: str = Field(
        description="Name of the class, also the metrics' label slo_class.",
        pattern=NAME_PATTERN,
        max_length=63,
    )
    ttft: TTFT = Field(description="Promise for the first token.")
    tbt_milliseconds: float = Field(
        description="Promise for the time between tokens in milliseconds.", gt=0, le=3_600_000
    )
    objective_percent: float = Field(
        default=99, description="Share of requests that must keep the promise, in percent.", gt=0, lt=100
    )
    safeguard: bool = Field(default=False, description="Whether the scheduler protects this class first.")


class Predictor(Model):
    """The batch latency predictor."""

    refresh_seconds: float = Field(
        default=30,
        description="Time between two fits from the engine's own batches, in seconds.",
        ge=1,
        le=86_400,
    )


class Chunk(Model):
    """Bounds of a batch's prefill tokens."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "!has(self.minTokens) || !has(self.maxTokens) || self.minTokens <= self.maxTokens",
                "scheduler.chunk.minTokens must not be above scheduler.chunk.maxTokens",
            )
        )
    )

    min_tokens: int = Field(default=16, description="Least prefill tokens of a batch.", ge=1, le=1_000_000)
    max_tokens: int | None = Field(
        default=None,
        description="Most prefill tokens of a batch; by default the engine's own batch limit.",
        ge=1,
        le=1_000_000,
    )


class Scheduler(Model):
    """Settings of the scheduler inside the engines."""

    policy: Literal["slidingserve_paper", "fcfs"] = Field(
        default="slidingserve_paper", description="Scheduling policy; fcfs leaves the order to vLLM."
    )
    alpha: float | None = Field(
        default=None,
        description="Urgency above which a request is served first; by default the policy's own.",
        gt=0,
        le=10,
    )
    predictor: Predictor = Field(default_factory=Predictor, description="Settings of the latency predictor.")
    chunk: Chunk = Field(default_factory=Chunk, description="Bounds of a batch's prefill tokens.")


class SLOServeSpec(Model):
    """A model served under promised latencies."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "has(self.model) && has(self.model.uri)",
                "spec.model.uri is missing: say which model to serve, as hf://organisation/name, pvc://claim/path"
                " or file:///path/in/image",
                reason="FieldValueRequired",
            ),
            cel(
                "!has(self.defaultClass) || self.sloClasses.exists(c, c.name == self.defaultClass)",
                "defaultClass must be the name of one of sloClasses: add that class or name another",
                field_path=".defaultClass",
            ),
        )
    )

    model: ModelSource = Field(
        description="Which model is served.", json_schema_extra={REQUIRED_BY_RULE: True, CHANGE: "restart"}
    )
    engine: Engine = Field(
        default_factory=Engine, description="How one engine runs.", json_schema_extra={CHANGE: "restart"}
    )
    replicas: int = Field(
        default=1,
        description="Number of engines; also set by `kubectl scale` and autoscalers.",
        ge=0,
        le=1000,
        json_schema_extra={CHANGE: "scale"},
    )
    slo_classes: list[SLOClass] = Field(
        description="Classes of requests with their promises.",
        min_length=1,
        max_length=32,
        json_schema_extra=extra(
            x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"], **{CHANGE: "hot"}
        ),
    )
    default_class: str | None = Field(
        default=None,
        description="Class of requests that name none; by default the first of sloClasses.",
        max_length=63,
        json_schema_extra={CHANGE: "hot"},
    )
    scheduler: Scheduler = Field(
        default_factory=Scheduler,
        description="Settings of the scheduler inside the engines.",
        json_schema_extra={CHANGE: "hot"},
    )
