"""`spec.engine`: how one engine runs. Cold: a change restarts the pods."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from .arguments import ARGUMENTS, once, pipeline_rule, word_rules
from .base import Model
from .rules import cel, extra, label_values
from .spec_claims import ResourceClaim
from .spec_model import ApiKey, LoraAdapter
from .spec_pod import EnvFrom, EnvVar, Name, Quantity, Resources, Toleration

CPU = "cpu"
CLAIMS = "claims"
GPU = "nvidia.com/gpu"


class PullSecret(Model):
    """A Secret with registry credentials."""

    name: Name = Field(description="Name of the Secret.")


class Engine(Model):
    """How one engine runs: accelerators, image, command line, placement. A change restarts the pods."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "!has(self.resources) || !has(self.accelerator) || self.accelerator == 'cpu'"
                " || ((!has(self.resources.limits) || !(self.accelerator in self.resources.limits))"
                " && (!has(self.resources.requests) || !(self.accelerator in self.resources.requests)))",
                "leave the accelerator out of engine.resources: its count is engine.tensorParallelSize"
                " times engine.pipelineParallelSize",
                field_path=".resources",
            ),
            pipeline_rule(),
            cel(
                "!has(self.sharedMemorySize) || !has(self.resources) || !has(self.resources.limits)"
                " || !('memory' in self.resources.limits)"
                " || (self.accelerator != 'cpu' && self.tensorParallelSize * self.pipelineParallelSize == 1)"
                " || !isQuantity(string(self.sharedMemorySize))"
                " || !isQuantity(string(self.resources.limits['memory']))"
                " || !quantity(string(self.sharedMemorySize))"
                ".isGreaterThan(quantity(string(self.resources.limits['memory'])))",
                "engine.sharedMemorySize must not be above engine.resources.limits.memory, as which it counts"
                " when it is used: lower it (2Gi if left out) or raise the limit",
                field_path=".sharedMemorySize",
            ),
            cel(
                "!has(self.resourceClaims) || self.resourceClaims.size() == 0 || !has(self.accelerator)"
                f" || self.accelerator in ['{CLAIMS}', '{GPU}']",
                "engine.accelerator must be claims with engine.resourceClaims: they hold the accelerators,"
                " and no other is asked for beside them",
                field_path=".accelerator",
            ),
            cel(
                "!has(self.resourceClaims) || self.resourceClaims.size() == 0"
                " || !self.resourceClaims.all(c, has(c.count)) || self.resourceClaims.map(c, c.count).sum()"
                " == self.tensorParallelSize * self.pipelineParallelSize",
                "the counts in engine.resourceClaims must add up to engine.tensorParallelSize times"
                " engine.pipelineParallelSize: each rank of the engine needs a device",
                field_path=".resourceClaims",
            ),
            *(once("engine", field, *arguments) for field, arguments in ARGUMENTS.items()),
        )
    )

    image: str | None = Field(
        default=None,
        description="Engine image; by default the one the operator was installed with.",
        min_length=1,
        max_length=512,
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="When the image is pulled."
    )
    image_pull_secrets: list[PullSecret] = Field(
        default_factory=list,
        description="Secrets with the credentials of the image's registry.",
        max_length=16,
        json_schema_extra=extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"]),
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
    pipeline_parallel_size: int = Field(
        default=1,
        description="Pipeline stages, each of tensorParallelSize accelerators. Above 1 no plan can be made:"
        " it needs --fallback in extraArgs, with which the engine runs vLLM's own scheduler and the resource"
        " says so.",
        ge=1,
        le=64,
    )
    accelerator: str = Field(
        default=GPU,
        description="Resource name of the accelerator (nvidia.com/gpu, amd.com/gpu, a MIG slice such as"
        " nvidia.com/mig-3g.40gb), claims for devices that resource claims hold (dynamic resource"
        " allocation), or cpu for the CPU build of the engine.",
        max_length=128,
        json_schema_extra=extra(
            cel(
                "self in ['cpu', 'claims']"
                " || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
                "/[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$')",
                "engine.accelerator must be cpu, claims or a resource name such as nvidia.com/gpu",
            )
        ),
    )
    resource_claims: list[ResourceClaim] = Field(
        default_factory=list,
        description="Claims that hold the engine's accelerators, for clusters that hand out devices by"
        " dynamic resource allocation (Kubernetes 1.34). With them no count of devices is asked for beside.",
        max_length=16,
        json_schema_extra=extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"]),
    )
    max_model_length: int | None = Field(
        default=None,
        description="Longest prompt plus answer in tokens; by default the model's own.",
        ge=1,
        le=100_000_000,
    )
    max_num_seqs: int | None = Field(
        default=None,
        description="Most requests that run at the same time; by default vLLM's own.",
        ge=1,
        le=65_536,
    )
    max_num_batched_tokens: int | None = Field(
        default=None, description="Most tokens of a batch; by default vLLM's own.", ge=1, le=1_048_576
    )
    gpu_memory_utilization: float | None = Field(
        default=None,
        description="Share of the accelerator's memory that the engine takes; by default vLLM's own.",
        gt=0,
        le=1,
    )
    lora_adapters: list[LoraAdapter] = Field(
        default_factory=list,
        description="LoRA adapters served beside the model.",
        max_length=32,
        json_schema_extra=extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"]),
    )
    api_key_secret_ref: ApiKey | None = Field(
        default=None,
        description="Secret with the key that clients must send as a bearer token; without it none is asked.",
    )
    extra_args: list[Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=list,
        description="Further arguments of `vllm serve`, one word each; what the scheduler cannot plan is"
        " refused unless --fallback is among them.",
        max_length=64,
        json_schema_extra=extra(
            *word_rules(),
            x_kubernetes_list_type="atomic",
        ),
    )
    env: list[EnvVar] = Field(
        default_factory=list,
        description="Further environment of the engine; wins over the operator's defaults.",
        max_length=64,
        json_schema_extra=extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"]),
    )
    env_from: list[EnvFrom] = Field(
        default_factory=list,
        description="Secrets and ConfigMaps all of whose keys become variables; env wins over them.",
        max_length=16,
        json_schema_extra=extra(x_kubernetes_list_type="atomic"),
    )
    resources: Resources | None = Field(default=None, description="CPU and memory of the engine container.")
    shared_memory_size: Quantity = Field(
        default="2Gi",
        description="Size of /dev/shm, mounted for several ranks and on cpu; what is used counts as memory.",
        json_schema_extra=extra(
            cel(
                "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",
                "engine.sharedMemorySize must be a quantity above 0 such as 2Gi",
            )
        ),
    )
    node_selector: dict[str, Annotated[str, Field(max_length=63)]] | None = Field(
        default=None,
        description="Labels a node must bear.",
        json_schema_extra=extra(label_values("engine.nodeSelector"), maxProperties=32),
    )
    tolerations: list[Toleration] = Field(
        default_factory=list,
        description="Taints that the pods accept.",
        max_length=32,
        json_schema_extra=extra(x_kubernetes_list_type="atomic"),
    )
    run_as: Literal["fixed", "cluster"] | None = Field(
        default=None,
        description="User and group of the pods: fixed, which is 1000, or cluster, which leaves them to the"
        " cluster (OpenShift gives each namespace a range of its own); by default what the operator was"
        " installed with.",
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

    @property
    def device(self) -> str | None:
        """Resource name of the accelerators that are asked for by count; None on CPUs and with claims."""
        counted = self.accelerator not in (CPU, CLAIMS) and not self.resource_claims
        return self.accelerator if counted else None

    @property
    def ranks(self) -> int:
        """Accelerators of one engine."""
        return self.tensor_parallel_size * self.pipeline_parallel_size
