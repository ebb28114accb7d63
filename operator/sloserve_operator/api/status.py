"""`status` of a SLOServe: what `status.compute` fills and `kubectl get` prints. Schema source like `spec`."""

from typing import Literal

from pydantic import Field

from .base import Model
from .rules import extra


class Condition(Model):
    """One observation about the resource, in Kubernetes' common form."""

    type: str = Field(
        description="SpecValid, Progressing, ConfigApplied, SLOMet or Ready.", min_length=1, max_length=316
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: int = Field(description="Generation of the resource it speaks of.", ge=0)
    last_transition_time: str = Field(
        description="When the status last flipped.", json_schema_extra={"format": "date-time"}
    )
    reason: str = Field(
        description="One word for machines; docs/reference/conditions.md has them all.",
        pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        max_length=1024,
    )
    message: str = Field(description="A sentence for people.", max_length=32768)


class PodStatus(Model):
    """What one engine pod has in force, by its own word."""

    name: str = Field(description="Name of the pod.")
    ready: bool = Field(description="Whether the pod is Ready.")
    applied_generation: int | None = Field(
        default=None,
        description="Generation of the live settings in force in all its processes, by its last word.",
    )
    policy: str | None = Field(default=None, description="Scheduling policy in force.")
    alpha: float | None = Field(default=None, description="Alpha in force.")
    predictor: str | None = Field(
        default=None,
        description="How far predicted batch times were off on average, and the share of batches that took"
        " longer than predicted (n: batches).",
    )


class ClassStatus(Model):
    """How one SLO class's promise is kept."""

    name: str = Field(description="Name of the class.")
    met: Literal["True", "False", "Unknown"] = Field(
        description="Whether the objective is met; Unknown below 20 requests, and 3 minutes after the last."
    )
    attainment: str | None = Field(
        default=None,
        description="Share of requests that kept the promise: of the last 10 minutes, or of all since the"
        " engines started if those were fewer than 20.",
    )
    objective: str = Field(description="Share that the spec asks for.")
    requests: int = Field(description="Number of requests that the share is of.")


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
    engines: str | None = Field(default=None, description="Ready engines of those that the spec asks for.")
    selector: str | None = Field(
        default=None, description="Label selector of the engine pods, for autoscalers."
    )
    endpoint: str | None = Field(default=None, description="OpenAI base URL inside the cluster.")
    attainment: str | None = Field(
        default=None, description="Share of requests that kept the promise, by class (n: requests)."
    )
    overall_attainment: str | None = Field(
        default=None, description="Mean of the classes' attainment by their weights."
    )
    slo_classes: list[ClassStatus] | None = Field(
        default=None,
        description="How each class's promise is kept.",
        json_schema_extra=extra(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"]),
    )
    predictor: str | None = Field(
        default=None,
        description="How far predicted batch times were off on average over the pods, and the share of"
        " batches that took longer than predicted.",
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
