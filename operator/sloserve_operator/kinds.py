"""Every kind that the operator knows, once: what it watches, what it makes, what it only writes.

Used by `handlers` (watches), `resync` (LISTs), `reconcile` (pruning) and `connection` (paths). The chart's
rights are held against this table by a test.
"""

from typing import NamedTuple

from .api import GROUP, KIND, PLURAL, VERSION
from .desired.names import MANAGED_BY, MANAGER


class Kind(NamedTuple):
    """A kind as the API server's paths name it."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """`apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


CHILDREN = (
    Kind("apps", "v1", "deployments", "Deployment"),
    Kind("", "v1", "services", "Service"),
    Kind("", "v1", "configmaps", "ConfigMap"),
    Kind("", "v1", "serviceaccounts", "ServiceAccount"),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
)
# Watched by our label, on the server's side.
LABELLED = (*CHILDREN, Kind("", "v1", "pods", "Pod"))
WATCHED = (Kind(GROUP, VERSION, PLURAL, KIND), *LABELLED)
WRITTEN = (
    Kind("", "v1", "events", "Event"),
    Kind("coordination.k8s.io", "v1", "leases", "Lease"),
)
READ = (Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),)

KINDS = {kind.kind: kind for kind in (*WATCHED, *WRITTEN, *READ)}
SELECTOR = f"{MANAGED_BY}={MANAGER}"
