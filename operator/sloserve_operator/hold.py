"""Whether the Deployment stays as it is, for what is wrong with the children before it. For `reconcile`."""

from collections.abc import Mapping

from .api.conditions import Reason
from .api.resource import Object, SLOServe
from .cache import Cache, key_of
from .children import Children
from .desired.drift import drift
from .desired.names import RESTART_HASH
from .status import Problem

NEEDED_BY_PODS = {"ServiceAccount", "ConfigMap", "PersistentVolumeClaim"}


def held(
    children: Children,
    cache: Cache,
    resource: SLOServe,
    desired: list[Object],
    problems: Mapping[str, Problem],
) -> bool:
    """Whether no pods are to be made or changed now: they would wait for something that is not there, or
    would use what was to be another by the same spec. What pods do not need never holds up scaling."""
    if not problems:
        return False
    needed = [child for child in desired if child["kind"] in NEEDED_BY_PODS]
    if not all(children.have(resource, child) for child in needed):
        return True
    deployment = next(child for child in desired if child["kind"] == "Deployment")
    if not children.have(resource, deployment):
        # Somebody else's object of this name: then nothing is to run under it.
        return any(problem.reason == Reason.NAME_COLLISION for problem in problems.values())
    live = cache.get("Deployment", key_of(deployment)) or {}
    restart = {RESTART_HASH: deployment["metadata"]["annotations"][RESTART_HASH]}
    pods = {"metadata": {"annotations": restart}, "spec": {"template": deployment["spec"]["template"]}}
    # Pods that run already use what is there in its older shape; others are not to begin with it.
    return not NEEDED_BY_PODS.isdisjoint(problems) and drift(pods, live) is not None
