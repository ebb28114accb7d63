"""`spec.storage`, `rollout`, `disruptionBudget`, `service`, `networkPolicy`, `monitoring`: what surrounds the
engines. None of it but the claim's name is part of a pod."""

from typing import Literal

from pydantic import ConfigDict, Field

from .base import Model
from .rules import CHANGE, cel, extra, label_values, unreserved
from .spec_pod import Name, Quantity, Words

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]


class ModelCache(Model):
    """A volume that keeps downloaded weights between starts: a claim that exists, or one to make."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "has(self.existingClaim) != has(self.size)",
                "storage.modelCache needs exactly one of existingClaim (a claim of yours) and size (a claim"
                " to be made)",
            ),
            cel(
                "has(self.size) || !has(self.storageClassName)",
                "storage.modelCache.storageClassName is for a claim to be made: give size, or leave it out",
            ),
            cel(
                "!has(self.size) || !has(oldSelf.size) || (self.accessModes == oldSelf.accessModes"
                " && has(self.storageClassName) == has(oldSelf.storageClassName)"
                " && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName))",
                "storage.modelCache.storageClassName and accessModes cannot change once the claim is made:"
                " take storage.modelCache out, delete the claim with its data, and give it anew",
            ),
            cel(
                "!has(self.size) || !has(oldSelf.size) || !isQuantity(string(self.size))"
                " || !quantity(string(self.size)).isLessThan(quantity(string(oldSelf.size)))",
                "storage.modelCache.size cannot shrink: give the old size or more",
            ),
        )
    )

    existing_claim: Name | None = Field(
        default=None,
        description="Name of a PersistentVolumeClaim that exists; it must bear as many pods as there are"
        " replicas.",
        json_schema_extra={CHANGE: "restart"},
    )
    size: Quantity | None = Field(
        default=None,
        description="Size of the claim to be made, NAME-model-cache. It goes with the SLOServe; a change of"
        " the spec never deletes it. Weights that must outlive the SLOServe belong in a claim of yours.",
        json_schema_extra=extra(
            cel(
                "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",
                "storage.modelCache.size must be a quantity above 0 such as 100Gi",
            ),
            **{CHANGE: "free"},
        ),
    )
    storage_class_name: str | None = Field(
        default=None,
        description="StorageClass of the claim to be made; by default the cluster's.",
        min_length=1,
        max_length=253,
        json_schema_extra={CHANGE: "fixed"},
    )
    access_modes: list[AccessMode] = Field(
        default=["ReadWriteOnce"],
        description="Access modes of the claim to be made; several replicas need ReadWriteMany.",
        min_length=1,
        max_length=3,
        json_schema_extra=extra(x_kubernetes_list_type="set", **{CHANGE: "fixed"}),
    )


class Storage(Model):
    """Volumes that outlive a pod."""

    model_cache: ModelCache | None = Field(
        default=None, description="Keeps downloaded weights (HF_HOME); without it each pod downloads its own."
    )


class Rollout(Model):
    """How pods are replaced. By default the old pod goes first, so that no spare accelerator is needed."""

    # The API server also tries the rules on the default {}, before the defaults inside it are filled in.

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "!has(self.type) || self.type == 'Recreate' || self.maxSurge > 0 || self.maxUnavailable > 0",
                "rollout.maxSurge and rollout.maxUnavailable cannot both be 0: nothing could be replaced;"
                " raise one of them",
            ),
            cel(
                "!has(self.type) || self.type != 'Recreate' || self.maxSurge == 0",
                "rollout.maxSurge must be left out with type Recreate: all pods go before new ones come",
            ),
        )
    )

    type: Literal["RollingUpdate", "Recreate"] = Field(
        default="RollingUpdate", description="RollingUpdate, or Recreate: all at once."
    )
    max_surge: int = Field(
        default=0,
        description="Pods above replicas while rolling; each needs accelerators that are free.",
        ge=0,
        le=1000,
    )
    max_unavailable: int = Field(
        default=1, description="Pods that may be missing while rolling.", ge=0, le=1000
    )


class DisruptionBudget(Model):
    """PodDisruptionBudget of the engines: how many a node drain may take at once; it keeps no unready one."""

    enabled: bool = Field(default=True, description="Whether there is one.")
    max_unavailable: int = Field(
        default=1, description="Pods that may be missing by evictions.", ge=1, le=1000
    )


class Service(Model):
    """The Service in front of the engines."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        default="ClusterIP", description="How it is reached."
    )
    ip_family_policy: Literal["SingleStack", "PreferDualStack", "RequireDualStack"] | None = Field(
        default=None,
        description="IPv4, IPv6 or both; by default both where the cluster has both and the engines listen on"
        " both.",
    )
    labels: Words | None = Field(
        default=None,
        description="Labels beside the operator's own.",
        json_schema_extra=extra(
            unreserved("service.labels"), label_values("service.labels"), maxProperties=64
        ),
    )
    annotations: Words | None = Field(
        default=None,
        description="Annotations, for example of a load balancer.",
        json_schema_extra=extra(unreserved("service.annotations"), maxProperties=64),
    )


class Requirement(Model):
    """One condition on labels (Kubernetes' own LabelSelectorRequirement)."""

    key: str = Field(description="Label key.", min_length=1, max_length=317)
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="How it is compared.")
    values: list[str] | None = Field(default=None, description="Values for In and NotIn.", max_length=64)


class LabelSelector(Model):
    """Objects by their labels (Kubernetes' own LabelSelector); empty matches all."""

    match_labels: dict[str, str] | None = Field(default=None, description="Labels that must be there.")
    match_expressions: list[Requirement] | None = Field(
        default=None, description="Conditions that must hold.", max_length=32
    )


class IPBlock(Model):
    """A range of addresses."""

    cidr: str = Field(description="The range, for example 10.0.0.0/8.", min_length=1, max_length=64)
    except_: list[str] | None = Field(
        default=None, alias="except", description="Ranges within it that are left out.", max_length=32
    )


class Peer(Model):
    """Who may send requests (Kubernetes' own NetworkPolicyPeer)."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",
                "networkPolicy.allowFrom needs in each entry either ipBlock, or podSelector and"
                " namespaceSelector or one of them",
            )
        )
    )

    pod_selector: LabelSelector | None = Field(
        default=None, description="Pods of the namespaces selected, or of the resource's own."
    )
    namespace_selector: LabelSelector | None = Field(default=None, description="Namespaces.")
    ip_block: IPBlock | None = Field(default=None, description="Addresses.")


class NetworkPolicy(Model):
    """Who reaches the engines. The operator always does; whoever scrapes metrics must be listed."""

    enabled: bool = Field(default=False, description="Whether there is one.")
    allow_from: list[Peer] | None = Field(
        default=None,
        description="Who may send requests and scrape; by default all pods of the resource's namespace.",
        max_length=32,
        json_schema_extra=extra(x_kubernetes_list_type="atomic"),
    )


class Monitoring(Model):
    """What monitors select by."""

    scrape: bool = Field(
        default=True, description="Value of the Service's label sloserve.dev/scrape, for a ServiceMonitor."
    )
