"""What of the Deployment may be written while other children are in trouble. Pure; called by `apply`.

No Deployment is made or changed to pods that would wait for something that is not there, or would use what
was to be another by the same spec. The number of replicas is handed down to pods that run already.
"""

from collections.abc import Callable, Mapping

from .api.conditions import Reason
from .api.resource import Object
from .desired.drift import drift
from .desired.names import RESTART_HASH
from .status import Problem

NEEDED_BY_PODS = {"ServiceAccount", "ConfigMap", "PersistentVolumeClaim"}
# These say nothing of what the child holds: pods can use it.
HARMLESS = {Reason.CHILD_CONTESTED, Reason.CHILD_DELETING}


def held(
    deployment: Object,
    live: Object | None,
    missing: Callable[[], bool],
    problems: Mapping[str, Problem],
) -> Object | None:
    """The Deployment to write; None for none.

    `live`: that of the cache, None if it is not there or not ours. `missing`: whether a child that pods need
    is not there. `problems`: by kind, of the children before it.
    """
    if not problems:
        return deployment
    if live is None:
        # Somebody else's object of this name: then nothing is to run under it.
        collision = any(problem.reason == Reason.NAME_COLLISION for problem in problems.values())
        return None if collision or missing() else deployment
    troubled = {kind for kind, problem in problems.items() if problem.reason not in HARMLESS}
    if not missing() and NEEDED_BY_PODS.isdisjoint(troubled):
        return deployment
    restart = {RESTART_HASH: deployment["metadata"]["annotations"][RESTART_HASH]}
    pods = {
        "metadata": {"annotations": restart},
        "spec": {"template": deployment["spec"]["template"]},
    }
    # Pods that run already use what is there in its older shape; others are not to begin with it.
    return deployment if drift(pods, live) is None else scaled(deployment, live)


def scaled(deployment: Object, live: Object) -> Object | None:
    """The live pods in the wanted number; None if it is that number."""
    if live["spec"].get("replicas") == deployment["spec"]["replicas"]:
        return None
    kept = live["metadata"].get("annotations") or {}
    annotations = {
        name: kept.get(name, value) for name, value in deployment["metadata"]["annotations"].items()
    }
    return {
        **deployment,
        "metadata": {**deployment["metadata"], "annotations": annotations},
        "spec": {**deployment["spec"], "template": live["spec"]["template"]},
    }
