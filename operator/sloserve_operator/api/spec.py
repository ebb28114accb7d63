"""`spec` of a SLOServe as users write it. Read by `desired` and `reconcile`, turned into schema by `crd`.

Python names are snake_case, the resource's are camelCase (aliases). Docstrings and descriptions are what
`kubectl explain` prints, so their first sentence stands alone. The marks hot, scale, restart and free say
what a change of the field does.
"""

from pydantic import ConfigDict, Field

from .arguments import once
from .base import Model
from .rules import CHANGE, REQUIRED_BY_RULE, cel, extra
from .spec_cluster import DisruptionBudget, Monitoring, NetworkPolicy, Rollout, Service, Storage
from .spec_engine import Engine
from .spec_model import ModelSource
from .spec_pod import PodTemplate
from .spec_slo import Scheduler, SLOClass

_MADE = "!has(self.storage) || !has(self.storage.modelCache) || !has(self.storage.modelCache.size)"


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
            once("model", "dtype", "--dtype"),
            once("model", "quantization", "--quantization", "-q"),
            cel(
                "!has(self.engine) || !has(self.engine.accelerator) || self.engine.accelerator != 'claims'"
                " || (has(self.engine.resourceClaims) && self.engine.resourceClaims.size() > 0)"
                " || (has(self.podTemplate) && has(self.podTemplate.spec)"
                " && has(self.podTemplate.spec.resourceClaims)"
                " && self.podTemplate.spec.resourceClaims.size() > 0)",
                "engine.accelerator claims needs the claims in engine.resourceClaims (or in"
                " podTemplate.spec.resourceClaims): name the ResourceClaimTemplate that has the devices",
                field_path=".engine.resourceClaims",
            ),
            cel(
                f"{_MADE} || self.replicas <= 1 || 'ReadWriteMany' in self.storage.modelCache.accessModes",
                "storage.modelCache.accessModes must hold ReadWriteMany with more than 1 replica: the pods"
                " share the claim",
                field_path=".storage.modelCache.accessModes",
            ),
            cel(
                f"{_MADE} || !has(self.rollout) || self.rollout.maxSurge == 0"
                " || 'ReadWriteMany' in self.storage.modelCache.accessModes",
                "storage.modelCache.accessModes must hold ReadWriteMany with rollout.maxSurge above 0: the"
                " old and the new pod share the claim",
                field_path=".storage.modelCache.accessModes",
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
    storage: Storage = Field(
        default_factory=Storage,
        description="Volumes that outlive a pod.",
        json_schema_extra={CHANGE: "restart"},
    )
    pod_template: PodTemplate | None = Field(
        default=None,
        description="Anything else of the pods, merged into them by Kubernetes' strategic merge: sidecars,"
        " volumes, affinity; the engine's container is main.",
        json_schema_extra={CHANGE: "restart"},
    )
    rollout: Rollout = Field(
        default_factory=Rollout, description="How pods are replaced.", json_schema_extra={CHANGE: "free"}
    )
    disruption_budget: DisruptionBudget = Field(
        default_factory=DisruptionBudget,
        description="How many engines a node drain may take at once.",
        json_schema_extra={CHANGE: "free"},
    )
    service: Service = Field(
        default_factory=Service,
        description="The Service in front of the engines.",
        json_schema_extra={CHANGE: "free"},
    )
    network_policy: NetworkPolicy = Field(
        default_factory=NetworkPolicy,
        description="Who reaches the engines.",
        json_schema_extra={CHANGE: "free"},
    )
    monitoring: Monitoring = Field(
        default_factory=Monitoring,
        description="What monitors select by.",
        json_schema_extra={CHANGE: "free"},
    )
