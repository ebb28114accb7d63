"""What each reason means and what to do: the truth of docs/reference/conditions.md."""

from .conditions import ORDER, Reason

CONDITIONS = {
    "SpecValid": "False only where a change of the spec is the remedy.",
    "Progressing": "True while pods are made or replaced; False when that is done, or cannot go on.",
    "ConfigApplied": "Whether every pod has the live settings in force that were last written, by the"
    " pods' own"
    " word. Not part of it: whether a pod is ready.",
    "SLOMet": "Whether each class's promise is kept for the share of requests that its `objectivePercent`"
    " asks for."
    " A class is judged by its requests of the last 10 minutes; where they were fewer than 20, and after a"
    " start of"
    " the operator, by all since its engines started. A class with fewer than 20 of those is not judged.",
    "Ready": "The summary: as many engines as the spec asks for serve, all with its pod template and its live"
    " settings. False says first what is gravest. While only settings are on their way, engines serve on.",
}
# reason -> (conditions, what it means, what to do)
REASONS: dict[Reason, tuple[str, str, str]] = {
    Reason.VALID: ("SpecValid", "The spec is accepted.", "Nothing."),
    Reason.INVALID_SPEC: (
        "SpecValid, Ready, SLOMet",
        "The stored spec does not fit this operator, because another version of the CRD let it in.",
        "Correct the fields that the message names, or bring CRD and operator to one version.",
    ),
    Reason.CHILD_REFUSED: (
        "SpecValid, Ready",
        "The API server refuses an object made from the spec; the message is its sentence.",
        "Correct the field that it names. The operator tries again when the spec changes, else every five"
        " minutes, in case an admission policy has changed.",
    ),
    Reason.ALL_REPLICAS_READY: ("Ready", "All engines serve what the spec says.", "Nothing."),
    Reason.FALLBACK: (
        "Ready",
        "Engines serve, but with vLLM's own scheduler; the message says what SlidingServe could not plan.",
        "Drop the option that it names, or --fallback, if promises matter here.",
    ),
    Reason.SCALED_TO_ZERO: ("Ready", "`replicas` is 0.", "`kubectl scale sloserve NAME --replicas=1`."),
    Reason.NAME_COLLISION: (
        "Ready",
        "An object of a name that the operator needs is not this resource's. It was left untouched.",
        "Delete it, or rename one of the two; it is looked at again every 10 s. A child of ours whose"
        " ownerReference somebody took away is taken back by itself: it has our labels, our hash and"
        " our field manager.",
    ),
    Reason.WAITING_FOR_CLEANUP: (
        "Ready",
        "A child of a deleted SLOServe of the same name is still there.",
        "Wait: Kubernetes removes it. If it stays, look for finalizers on it.",
    ),
    Reason.FORBIDDEN: (
        "Ready",
        "The operator lacks a right; the message is the API server's.",
        "Install the chart of the operator's own version (RBAC goes with it); look for admission policies.",
    ),
    Reason.CHILD_NOT_WRITTEN: (
        "Ready",
        "The API server failed at a child twice or more: a webhook of that kind that does not answer, a kind"
        " that is not served, a deadline. The message names each child, the verb and the server's words. All"
        " else goes on: the other children, the number of replicas, live settings, this status.",
        "Repair what the message names. The operator tries again with pauses of 1 s up to 5 minutes.",
    ),
    Reason.CHILD_DELETING: (
        "Ready",
        "Somebody deleted a child, and a finalizer holds it; the message names it. What runs is as it was"
        " before.",
        "Let the finalizer's owner end its work, or remove it: `kubectl edit KIND NAME`. The child is then"
        " made anew.",
    ),
    Reason.CHILD_CONTESTED: (
        "Ready",
        "Somebody changes a child back each time; the message names the field manager and the field. Engines"
        " may run what that writer says.",
        "Stop that writer, or say what it wants in the spec (`podTemplate`). It is over a minute after the"
        " last change.",
    ),
    Reason.QUOTA_EXCEEDED: (
        "Ready",
        "A ResourceQuota of the namespace forbids a pod or a child; the message says which and by how much.",
        "Raise the quota, or lower `replicas`, `engine.resources` or the accelerators.",
    ),
    Reason.REPLICA_FAILURE: (
        "Ready",
        "The API server refuses the pods themselves, for instance by Pod Security or a LimitRange.",
        "The message names the rule: change the spec, or the namespace's policy. Where the cluster gives each"
        " namespace its users: `engine.runAs: cluster`.",
    ),
    Reason.CLAIM_MISSING: (
        "Ready",
        "A pod needs a PersistentVolumeClaim that is not there.",
        "Create it in the same namespace, or correct `model.uri` (pvc://CLAIM/...) or"
        " `storage.modelCache.existingClaim`.",
    ),
    Reason.CLAIM_UNBOUND: (
        "Ready",
        "A claim is there and has no volume.",
        "`kubectl describe pvc CLAIM`; set `storage.modelCache.storageClassName`, or make a"
        " PersistentVolume.",
    ),
    Reason.IMAGE_PULL: (
        "Ready",
        "The node cannot get the engine's image.",
        "Correct `engine.image`; for a private registry set `engine.imagePullSecrets`.",
    ),
    Reason.CONTAINER_CONFIG: (
        "Ready",
        "A container cannot be made: mostly a Secret or ConfigMap, or a key in it, is not there.",
        "Create it in the same namespace, or correct the field that names it.",
    ),
    Reason.TOKEN_MISSING: (
        "Ready",
        "The model hub gives a gated model to nobody without a token.",
        "Set `model.tokenSecretRef`.",
    ),
    Reason.TOKEN_REFUSED: (
        "Ready",
        "The model hub does not know the token, or the token's account has no access to the model.",
        "Put a valid token into the Secret, or ask for access on the model's page. Then delete the pod: a"
        " Secret is"
        " read when a container starts.",
    ),
    Reason.MODEL_NOT_FOUND: (
        "Ready",
        "The hub, or the claim or image, has no such model or revision. A hub says the same of a private"
        " model to"
        " whoever may not see it.",
        "Correct `model.uri` or `model.revision`; of a private model, set `model.tokenSecretRef`.",
    ),
    Reason.HUB_BUSY: (
        "Ready",
        "The model hub answers that it has too much to do (429, or 5xx), or broke a transfer off. The"
        " message has its answer and the time that it asked for.",
        "Wait: the kubelet starts the container again, later each time, and the engine lets the time pass"
        " that the hub asked for. With `storage.modelCache` whole files are kept, and a model that is there"
        " whole starts without the hub; a token (`model.tokenSecretRef`) has a limit of its own.",
    ),
    Reason.HUB_UNREACHABLE: (
        "Ready",
        "The model hub cannot be reached from the pod, and the cache does not hold the whole model.",
        "Look at the cluster's way out: DNS, proxy (`engine.env`), network policies, `HF_ENDPOINT`."
        " The kubelet starts the container again by itself.",
    ),
    Reason.DEVICE_UNHEALTHY: (
        "Ready",
        "A device of the pod is broken: its plugin marked it (the message names it), or the engine's last"
        " line tells of ECC errors, Xid events or a GPU that is gone.",
        "Cordon the node and delete the pod, so that it starts elsewhere; then look at the device.",
    ),
    Reason.OUT_OF_MEMORY: (
        "Ready",
        "The kernel killed a container at its memory limit (the kubelet says OOMKilled).",
        "Raise `engine.resources.limits.memory`; /dev/shm counts. GPU memory has nothing to do with it.",
    ),
    Reason.CRASH_LOOP: (
        "Ready",
        "The engine ended with an error; the message is its last line that names one.",
        "`kubectl logs POD --previous` has the rest.",
    ),
    Reason.PROBE_FAILING: (
        "Ready",
        "The engine was not ready in time, or was and no longer answers its readiness or liveness probe."
        " Exit codes"
        " 137 and 143 of a restarted container are told apart by the times in the pod's status. An engine"
        " that was drained by hand shows as this too.",
        "Too slow a start: `engine.startupTimeoutSeconds`. Else the log, and GET /slidingserve/v1/ready in"
        " the pod; if it says `draining`: `slidingserve drain --cancel` (docs/operations.md, *How a pod"
        " stops*).",
    ),
    Reason.KILLED: (
        "Ready",
        "A container was killed (exit code 137), and neither at its memory limit nor by a probe, as far as"
        " the pod's"
        " status tells.",
        "`kubectl describe pod POD`; the node's kernel log (`dmesg`), as a node without memory kills too.",
    ),
    Reason.NODE_LOST: (
        "Ready",
        "A node does not report: a pod on it counts as not ready, or cannot end.",
        "`kubectl describe node NODE`. If it is gone for good, delete it, or the pod with --force.",
    ),
    Reason.READINESS_GATE: (
        "Ready",
        "The pod's containers are ready, and a readiness gate that somebody gave it is not: mostly a load"
        " balancer has not taken it up yet.",
        "Look at who sets the condition that the message names; without its controller, take the gate out.",
    ),
    Reason.INSUFFICIENT_GPU: (
        "Ready",
        "No node has as many accelerators free as a pod asks for, by count or by resource claims; the message"
        " has the number and the resource, or the claims, and the scheduler's sentence.",
        "Free or add accelerators; lower `replicas`, `engine.tensorParallelSize` or"
        " `engine.pipelineParallelSize`, and with claims what the ResourceClaimTemplate asks for. A device"
        " that its plugin marks as broken no longer counts: compare capacity and allocatable of the nodes.",
    ),
    Reason.UNSCHEDULABLE: (
        "Ready",
        "The scheduler finds no node for another reason: taints, node selector, CPU, memory.",
        "The message is the scheduler's: `engine.tolerations`, `engine.nodeSelector`, `engine.resources`.",
    ),
    Reason.EVICTED: (
        "Ready",
        "A pod has to leave its node (drain, preemption, taint), or its node ended it (memory or disk"
        " pressure).",
        "Nothing if the node was drained; under pressure set requests that say what the engine needs.",
    ),
    Reason.WAITING_FOR_DRAIN: (
        "Ready",
        "The next pod waits for the accelerators of our own old pod, which lets its running requests end.",
        "Wait: at most `engine.drainTimeoutSeconds` and 25 s a pod.",
    ),
    Reason.STARTING: (
        "Ready",
        "A pod is set up, pulls its image, loads the model or calibrates.",
        "Wait. `engine.startupTimeoutSeconds` is the limit.",
    ),
    Reason.PENDING: (
        "Ready",
        "The Deployment has not made its pods yet.",
        "Wait; if it stays, look at kube-controller-manager and `kubectl describe deployment NAME`.",
    ),
    Reason.CONFIG_NOT_APPLIED: (
        "Ready",
        "All engines serve, and at least one says that it has other live settings than the spec.",
        "Usually over within two seconds; if not, ConfigApplied says why.",
    ),
    Reason.STABLE: ("Progressing", "All pods are of the last rollout and available.", "Nothing."),
    Reason.ROLLING_OUT: ("Progressing", "Pods are made or replaced.", "Wait; Ready says what is waited for."),
    Reason.PAUSED: (
        "Progressing, Ready",
        "Somebody paused the Deployment.",
        "`kubectl rollout resume deployment NAME`.",
    ),
    Reason.DEADLINE_EXCEEDED: (
        "Progressing",
        "No new pod became available within drain, pull and start-up time together.",
        "Ready says what stands in the way. It goes on by itself when that is gone.",
    ),
    Reason.BLOCKED: ("Progressing", "The children cannot be written.", "Ready says why."),
    Reason.APPLIED: ("ConfigApplied", "All pods have the settings in force.", "Nothing."),
    Reason.PARTLY_APPLIED: (
        "ConfigApplied",
        "Some pods have them, some not; the message names both.",
        "Usually over within two seconds. A pod that stays behind: does its node's kubelet report?",
    ),
    Reason.WAITING_FOR_PODS: ("ConfigApplied", "No pod has them yet.", "As PartlyApplied."),
    Reason.POD_UNREACHABLE: (
        "ConfigApplied",
        "A ready pod does not answer the operator on port 8000.",
        "Network policies between the operator's namespace and the engines'; an engine that is overloaded.",
    ),
    Reason.CONFIG_REJECTED: (
        "ConfigApplied",
        "An engine refuses the settings and keeps the last good ones; the message is its sentence.",
        "Correct the field that it names.",
    ),
    Reason.NO_PODS: (
        "ConfigApplied",
        "There is no pod that could have them.",
        "Nothing: a pod starts with them.",
    ),
    Reason.NOT_WRITTEN: (
        "ConfigApplied",
        "The ConfigMap, or what the pods need beside it, could not be written.",
        "Ready says why.",
    ),
    Reason.OBJECTIVES_MET: ("SLOMet", "Every class that is judged keeps its objective.", "Nothing."),
    Reason.OBJECTIVE_MISSED: (
        "SLOMet",
        "At least one class does not; the message names the worst, its share, its requests and its"
        " objective.",
        "The dashboard says which part is missed; then docs/operations.md, *Tune while it serves*.",
    ),
    Reason.TOO_FEW_REQUESTS: ("SLOMet", "No class has had 20 requests.", "Nothing."),
    Reason.IDLE: (
        "SLOMet",
        "No class has had a request for three minutes: there is nothing to judge. The shares in the status"
        " are of all requests since the engines started, and stand still.",
        "Nothing.",
    ),
}


def text() -> str:
    """The page docs/reference/conditions.md."""
    lines = [
        "<!-- Generated by `make generate` from operator/sloserve_operator/api; do not edit. -->",
        "# Conditions and reasons",
        "",
        "`kubectl get sloserve` shows Ready and its reason, `kubectl describe sloserve NAME` all"
        " conditions with their",
        "messages, which name the pod or object, the figure and the remedy, and the events. An event is"
        " posted when a",
        "condition turns to a reason worth telling, once. Metrics: `sloserve_condition` has 1 for True.",
        "",
        "Each condition has the `observedGeneration` that it speaks of: `kubectl wait sloserve NAME"
        " --for=condition=Ready`",
        "returns when the newest spec runs, live settings included.",
        "",
    ]
    for kind in ORDER:
        lines += [f"## {kind}", "", CONDITIONS[kind], "", "| reason | means | do |", "| --- | --- | --- |"]
        rows = [(reason, REASONS[reason]) for reason in Reason]
        lines += [
            f"| `{r}` | {means} | {do} |" for r, (where, means, do) in rows if kind in where.split(", ")
        ]
        lines.append("")
    return "\n".join(lines)
