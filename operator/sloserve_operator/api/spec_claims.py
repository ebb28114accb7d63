"""`spec.engine.resourceClaims`: accelerators by dynamic resource allocation. Cold."""

from pydantic import ConfigDict, Field

from .base import Model
from .rules import CHANGE, cel, extra
from .spec_pod import Name


class ResourceClaim(Model):
    """Devices of a pod by dynamic resource allocation: one claim for all pods, or one for each."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "has(self.resourceClaimName) != has(self.resourceClaimTemplateName)",
                "engine.resourceClaims needs in each entry exactly one of resourceClaimTemplateName (a claim"
                " for each pod) and resourceClaimName (one claim that all pods share)",
            )
        )
    )

    name: str = Field(description="Name of the claim within the pod.", min_length=1, max_length=63)
    resource_claim_template_name: Name | None = Field(
        default=None,
        description="A ResourceClaimTemplate of the namespace: each pod has a claim of its own.",
    )
    resource_claim_name: Name | None = Field(
        default=None, description="A ResourceClaim of the namespace: all pods share its devices."
    )
    request: str | None = Field(
        default=None,
        description="Request within the claim; by default all of them.",
        min_length=1,
        max_length=63,
    )
    count: int | None = Field(
        default=None,
        description="Devices that the claim holds; where every entry says so, their sum is checked against"
        " the engine's ranks.",
        ge=1,
        le=4096,
        json_schema_extra={CHANGE: "free"},
    )
