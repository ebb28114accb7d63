"""`spec.model` and `spec.engine`: what is served and on what. Cold: a change restarts the pods."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from .base import Model
from .rules import REQUIRED_BY_RULE, cel, extra

CPU = "cpu"
# Arguments that the operator or `slidingserve serve` decides itself.
OWN_ARGUMENTS = (
    "host|port|tensor-parallel-size|tp|served-model-name|max-model-len|revision|shutdown-timeout"
    "|slo-config|state-dir|scheduler-cls|middleware|uds"
)

Quantity = Annotated[int | str, Field(json_schema_extra={"maxLength": 32})]


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
        description="Name that clients send; by default what follows hf://, or the last part of the path.",
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
                "engine.tensorParallelSize must be at least 1: the number of accelerators of one engine",
            )
        ),
    )
    accelerator: str = Field(
        default="nvidia.com/gpu",
        description="Resource name of the accelerator, or cpu for the CPU build of the engine.",
        max_length=128,
        json_schema_extra=extra(
            cel(
                "self == 'cpu'"
                " || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
                "/[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$')",
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
                "engine.extraArgs must not set what the resource or the operator decides (host, port,"
                " revision, tensor-parallel-size, served-model-name, max-model-len, shutdown-timeout,"
                " scheduler): use the fields of the resource",
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
        description="Size of /dev/shm, mounted for several ranks and on cpu; what is used counts as memory.",
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
