"""`status` of a SLOServe: what `status.compute` fills and `kubectl get` prints. Schema source like `spec`."""

from typing import Literal

from pydantic import Field

from .base import Model
from .rules import extra


class Condition(Model):
    """One observation about the resource, in Kubernetes' common form."""

    type: str = Field(
        description="SpecValid, Progressing, ConfigApplied or Ready.", min_length=1, max_length=316
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: int = Field(description="Generation of the resource it speaks of.", ge=0)
    last_transition_time: str = Field(
        description="When the status last flipped.", json_schema_extra={"format": "date-time"}
    )
    reason: str = Field(
        description="One word for machines.",
        pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        max_length=1024,
    )
    message: str = Field(description="A sentence for people.", max_length=32768)


class PodStatus(Model):
    """What one engine pod has in force, by its own word."""

    name: str = Field(description="Name of the pod.")
    ready: bool = Field(description="Whether the pod is Ready.")
    applied_generation: int | None = Field(
        default=None, description="Generation of the live settings in force in all its processes."
    )
    policy: str | None = Field(default=None, description="Scheduling policy in force.")
    alpha: float | None = Field(default=None, description="Alpha in force.")


class ConfigStatus(Model):
    """The live settings that the operator last wrote."""

    revision: str = Field(description="Hash of the live settings.")
    generation: int = Field(description="Generation of the resource at which they first appeared.")


class SLOServeStatus(Model):
    """What the operator observed."""

    observed_generation: int | None = Field(
        default=None, description="Generation that this status speaks of."
    )
    replicas: int = Field(default=0, description="Engine pods that exist.")
    ready_replicas: int = Field(default=0, description="Engine pods that are Ready.")
    selector: str | None = Field(
        default=None, description="Label selector of the engine pods, for autoscalers."
    )
    endpoint: str | None = Field(default=None, description="OpenAI base URL inside the cluster.")
    attainment: str | None = Field(
        default=None, description="Share of requests that kept the promise, by class."
    )
    config: ConfigStatus | None = Field(default=None, description="The live settings last written.")
    pods: list[PodStatus] | None = Field(
        default=None,
        description="Engine pods and what they have in force.",
        json_schema_extra=extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"]),
    )
    conditions: list[Condition] | None = Field(
        default=None,
        description="Why the resource is ready, or why not.",
        json_schema_extra=extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["type"]),
    )
