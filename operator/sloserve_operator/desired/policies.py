"""PodDisruptionBudget and NetworkPolicy of a resource. Pure; called by `workload`."""

from collections.abc import Mapping
from typing import Any

from sloserve_operator.api.resource import Object, SLOServe

from .command import PORT
from .names import child, selector

# Pods of any release of the chart.
OPERATOR_LABELS = {
    "app.kubernetes.io/component": "operator",
    "app.kubernetes.io/part-of": "slidingserve",
}


def operator_peer(namespace: str = "", pod_labels: str = "") -> Object:
    """The operator as a NetworkPolicyPeer: `key=value,...` in a namespace; empty: any release's pods."""
    pairs = (pair.partition("=") for pair in pod_labels.split(",") if pair)
    wanted = {key.strip(): value.strip() for key, _, value in pairs}
    space = {"matchLabels": {"kubernetes.io/metadata.name": namespace}} if namespace else {}
    return {"namespaceSelector": space, "podSelector": {"matchLabels": wanted or dict(OPERATOR_LABELS)}}


def disruption_budget(resource: SLOServe) -> Object | None:
    """How many engines evictions may take at once. Unready pods never block a drain."""
    budget = resource.spec.disruption_budget
    if not budget.enabled:
        return None
    spec = {
        "maxUnavailable": budget.max_unavailable,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector(resource.name)},
    }
    return child(resource, "policy/v1", "PodDisruptionBudget", resource.name, spec=spec)


def network_policy(resource: SLOServe, operator: Mapping[str, Any]) -> Object | None:
    """Who reaches the engines' one port; `operator` always does, for it reads their state there."""
    policy = resource.spec.network_policy
    if not policy.enabled:
        return None
    clients: list[Object] = [{"podSelector": {}}]
    if policy.allow_from is not None:
        clients = [peer.model_dump(by_alias=True, exclude_none=True) for peer in policy.allow_from]
    spec = {
        "podSelector": {"matchLabels": selector(resource.name)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [dict(operator), *clients], "ports": [{"port": PORT, "protocol": "TCP"}]}],
    }
    return child(resource, "networking.k8s.io/v1", "NetworkPolicy", resource.name, spec=spec)
