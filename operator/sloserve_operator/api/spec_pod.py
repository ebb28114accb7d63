"""Parts of a pod as users write them: environment, resources, tolerations, `spec.podTemplate`. Cold.

Kubernetes' own types, by their own names. What is fixed by `desired.pod` is refused here where the API server
can see it; the rest of a pod's spec is taken as it is and checked when the Deployment is written.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from .base import Model
from .rules import PRESERVE, cel, extra, label_values, quantities, unreserved

Quantity = Annotated[int | str, Field(json_schema_extra={"maxLength": 32})]
Words = dict[str, Annotated[str, Field(max_length=4096)]]
Free = Annotated[dict[str, Any], Field(json_schema_extra={PRESERVE: True})]
DeviceClaim = Annotated[
    dict[str, Any],
    Field(description="A claim, in Kubernetes' own fields.", json_schema_extra={PRESERVE: True}),
]
Name = Annotated[str, Field(min_length=1, max_length=253)]


def exactly_one(*fields: str) -> str:
    """CEL: one of the fields is there."""
    return f"[{', '.join(f'has(self.{field})' for field in fields)}].filter(there, there).size() == 1"


class LocalKey(Model):
    """A key of a Secret or ConfigMap of the resource's namespace."""

    name: Name = Field(description="Name of the object.")
    key: Name = Field(description="Key within it.")
    optional: bool | None = Field(default=None, description="Whether the pod starts without it.")


class LocalObject(Model):
    """A Secret or ConfigMap of the resource's namespace."""

    name: Name = Field(description="Name of the object.")
    optional: bool | None = Field(default=None, description="Whether the pod starts without it.")


class FieldRef(Model):
    """A field of the pod."""

    field_path: Name = Field(description="Path of the field, for example status.podIP.")
    api_version: str | None = Field(default=None, description="Version of the path; v1.", max_length=64)


class ResourceFieldRef(Model):
    """A resource of a container."""

    resource: Name = Field(description="Resource, for example limits.memory.")
    container_name: str | None = Field(default=None, description="Container; by default main.", max_length=63)
    divisor: Quantity | None = Field(default=None, description="Unit of the value, for example 1Mi.")


class EnvSource(Model):
    """Where a variable's value comes from: exactly one of its fields."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                exactly_one("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef"),
                "valueFrom needs exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef",
            )
        )
    )

    secret_key_ref: LocalKey | None = Field(default=None, description="Key of a Secret.")
    config_map_key_ref: LocalKey | None = Field(default=None, description="Key of a ConfigMap.")
    field_ref: FieldRef | None = Field(default=None, description="Field of the pod.")
    resource_field_ref: ResourceFieldRef | None = Field(
        default=None, description="Request or limit of a container."
    )


class EnvVar(Model):
    """One environment variable of the engine container."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "!has(self.valueFrom) || !has(self.value) || self.value == ''",
                "engine.env needs either value or valueFrom for a variable, not both: leave one out",
            )
        )
    )

    name: str = Field(description="Name of the variable.", pattern="^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)
    value: str = Field(default="", description="Its value.", max_length=4096)
    value_from: EnvSource | None = Field(default=None, description="Where its value comes from instead.")


class EnvFrom(Model):
    """All keys of a Secret or ConfigMap as variables: exactly one of its references."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "has(self.secretRef) != has(self.configMapRef)",
                "engine.envFrom needs exactly one of secretRef and configMapRef in each entry",
            )
        )
    )

    prefix: str | None = Field(default=None, description="Put before every key.", max_length=128)
    secret_ref: LocalObject | None = Field(default=None, description="A Secret.")
    config_map_ref: LocalObject | None = Field(default=None, description="A ConfigMap.")


FRACTIONS = ' A fraction is written 500m or in quotes: "0.5".'


class Resources(Model):
    """Requests and limits of the engine container, without the accelerator."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "!has(self.requests) || !has(self.limits) || self.requests.all(key, !(key in self.limits)"
                " || !isQuantity(string(self.requests[key])) || !isQuantity(string(self.limits[key]))"
                " || !quantity(string(self.requests[key]))"
                ".isGreaterThan(quantity(string(self.limits[key]))))",
                "engine.resources.requests must not be above engine.resources.limits: lower the request or"
                " raise the limit",
                field_path=".requests",
            )
        )
    )

    requests: dict[str, Quantity] | None = Field(
        default=None,
        description="What the scheduler reserves." + FRACTIONS,
        json_schema_extra=extra(quantities("engine.resources.requests"), maxProperties=16),
    )
    limits: dict[str, Quantity] | None = Field(
        default=None,
        description="What the container may use at most." + FRACTIONS,
        json_schema_extra=extra(quantities("engine.resources.limits"), maxProperties=16),
    )


class Toleration(Model):
    """A taint that the pods accept (Kubernetes' own Toleration)."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
                "engine.tolerations needs operator Exists in an entry without key: add it, or name the key",
            ),
            cel(
                "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
                "engine.tolerations must have no value with operator Exists: leave it out, or use Equal",
            ),
            cel(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "engine.tolerations needs effect NoExecute beside tolerationSeconds: add it, or leave these"
                " seconds out",
            ),
        )
    )

    key: str | None = Field(
        default=None, description="Taint key; empty matches all with operator Exists.", max_length=253
    )
    operator: Literal["Exists", "Equal"] | None = Field(default=None, description="Equal unless given.")
    value: str | None = Field(default=None, description="Taint value for Equal.", max_length=63)
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Taint effect; empty matches all."
    )
    toleration_seconds: int | None = Field(default=None, description="Seconds to stay under NoExecute.")


class Container(Model):
    """A container to add, or what to change in `main`, the engine. Fields not listed are Kubernetes' own."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra=extra(
            cel(
                "self.name != 'main' || !(has(self.image) || has(self.command) || has(self.args))",
                "podTemplate must not set image, command or args of the container main: use engine.image,"
                " engine.extraArgs and the fields of model",
            ),
            cel(
                "self.name != 'main' || !(has(self.lifecycle) || has(self.startupProbe)"
                " || has(self.readinessProbe) || has(self.livenessProbe))",
                "podTemplate must not set lifecycle or probes of the container main: use"
                " engine.startupTimeoutSeconds and engine.drainTimeoutSeconds",
            ),
            **{PRESERVE: True},
        ),
    )

    name: str = Field(description="Name of the container; main is the engine.", min_length=1, max_length=63)
    image: str | None = Field(default=None, description="Image; not for main.", max_length=512)
    command: list[Annotated[str, Field(max_length=4096)]] | None = Field(
        default=None, description="Command; not for main.", max_length=64
    )
    args: list[Annotated[str, Field(max_length=4096)]] | None = Field(
        default=None, description="Arguments; not for main.", max_length=256
    )
    lifecycle: Free | None = Field(default=None, description="Hooks at start and stop; not for main.")
    startup_probe: Free | None = Field(default=None, description="Probe of the start; not for main.")
    readiness_probe: Free | None = Field(default=None, description="Probe of readiness; not for main.")
    liveness_probe: Free | None = Field(default=None, description="Probe of life; not for main.")


class PodSpec(Model):
    """A pod's spec. Fields not listed are Kubernetes' own."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra=extra(
            cel(
                "!has(self.terminationGracePeriodSeconds)",
                "podTemplate must not set terminationGracePeriodSeconds: use engine.drainTimeoutSeconds",
            ),
            **{PRESERVE: True},
        ),
    )

    termination_grace_period_seconds: int | None = Field(
        default=None, description="Not to be set: it follows from engine.drainTimeoutSeconds."
    )
    resource_claims: list[DeviceClaim] | None = Field(
        default=None,
        description="Claims of devices, merged by name; those of the accelerators are better in"
        " engine.resourceClaims.",
        max_length=32,
        json_schema_extra=extra(x_kubernetes_list_type="atomic"),
    )
    containers: list[Container] | None = Field(
        default=None,
        description="Containers, merged by name into the engine's pod.",
        max_length=16,
        json_schema_extra=extra(x_kubernetes_list_type="atomic"),
    )


class PodMetadata(Model):
    """Labels and annotations of the pods."""

    labels: Words | None = Field(
        default=None,
        description="Labels beside the operator's own.",
        json_schema_extra=extra(
            unreserved("podTemplate.metadata.labels"),
            label_values("podTemplate.metadata.labels"),
            maxProperties=64,
        ),
    )
    annotations: Words | None = Field(
        default=None,
        description="Annotations.",
        json_schema_extra=extra(unreserved("podTemplate.metadata.annotations"), maxProperties=64),
    )


class PodTemplate(Model):
    """What is merged into the engine's pod by Kubernetes' strategic merge, `$patch` included."""

    metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of the pods.")
    spec: PodSpec | None = Field(default=None, description="Anything of a pod's spec.")
