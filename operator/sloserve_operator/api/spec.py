"""`spec` of a SLOServe as users write it. Read by `desired` and `reconcile`, turned into schema by `crd`.

Python names are snake_case, the resource's are camelCase (aliases). Docstrings and descriptions are what
`kubectl explain` prints, so their first sentence stands alone. The marks hot, scale and restart say what a
change of the field does.
"""

from pydantic import ConfigDict, Field

from .base import Model
from .rules import CHANGE, REQUIRED_BY_RULE, cel, extra
from .spec_engine import Engine, ModelSource
from .spec_slo import Scheduler, SLOClass


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
