"""The alerts as data: what is asked of Prometheus, when a person is told, and what it means.

`rules.py` writes them into the chart. A word between @ signs is filled in there: a threshold of the values,
or the release's namespace. Each has a section of its name in docs/operations.md that says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning"]
CLASS = "namespace, sloserve, slo_class"
SERVER = "namespace, sloserve"
OPERATOR = 'namespace="@releaseNamespace@"'
WHERE = "{{ $labels.namespace }}/{{ $labels.sloserve }}"
RESOURCE = "{{ $labels.namespace }}/{{ $labels.name }}"


@dataclass(frozen=True)
class Alert:
    """One alert; `wait` is for how long the expression must hold."""

    name: str
    expr: str
    wait: str
    severity: Severity
    summary: str
    description: str


def burn(
    name: str, threshold: str, windows: tuple[str, str], wait: str, severity: Severity, spent: str
) -> Alert:
    """The budget burns in a long window, so that it matters, and in a short one, so that it still does."""
    long, short = windows
    enough = f"sum by ({CLASS}) (increase(slidingserve_requests_total[{long}])) >= @minimumRequests@"
    expr = (
        f"slo:burn_rate:ratio_rate{long} > @{threshold}@\n"
        f"  and slo:burn_rate:ratio_rate{short} > @{threshold}@\n"
        f"  and on ({CLASS}) {enough}"
    )
    return Alert(
        name,
        expr,
        wait,
        severity,
        f"{WHERE}: class {{{{ $labels.slo_class }}}} misses its promise too often.",
        f"Class {{{{ $labels.slo_class }}}} of {WHERE} misses its limits {{{{ $value | humanize }}}}"
        f" times as often as its objective allows, over {long} and over {short}: {spent}.",
    )


SLO = (
    burn("SlidingServeErrorBudgetBurnsFast", "burnRateFast", ("1h", "5m"), "2m", "critical",
         "at 14.4 a month's error budget is gone in two days"),
    burn("SlidingServeErrorBudgetBurnsSlowly", "burnRateSlow", ("6h", "30m"), "15m", "warning",
         "at 6 a month's error budget is gone in five days"),
)  # fmt: skip

ENGINE = (
    Alert(
        "SlidingServeStockScheduler",
        f"max by ({SERVER}, pod) (slidingserve_fallback) > 0",
        "5m",
        "warning",
        f"{WHERE}: an engine runs vLLM's own scheduler.",
        "Pod {{ $labels.pod }} serves, but does not schedule by deadline: it was started with something"
        " that the scheduler cannot plan. The condition Ready of the resource says with what.",
    ),
    Alert(
        "SlidingServePlannerErrors",
        f"sum by ({SERVER}, pod) (increase(slidingserve_planner_errors_total[15m])) > 0",
        "0m",
        "warning",
        f"{WHERE}: plans fail.",
        "{{ $value | humanize }} plans of pod {{ $labels.pod }} failed in 15 minutes; vLLM's own order"
        " served these steps. It is a fault of the scheduler: the pod's log has it.",
    ),
    Alert(
        "SlidingServePredictorError",
        f"sum by ({SERVER}, scene) (rate(slidingserve_predictor_abs_error_seconds_sum[15m]))\n"
        f"  / sum by ({SERVER}, scene) (rate(slidingserve_batch_seconds_sum[15m])) > @predictorErrorRatio@",
        "15m",
        "warning",
        f"{WHERE}: batch times are predicted badly.",
        "Predictions of {{ $labels.scene }} batches are off by {{ $value | humanizePercentage }} of the"
        " measured time: deadlines are planned on wrong times.",
    ),
    Alert(
        "SlidingServeConfigRejected",
        f'sum by ({SERVER}, pod) (increase(slidingserve_config_reloads_total{{result="rejected"}}[15m])) > 0',
        "0m",
        "warning",
        f"{WHERE}: an engine refuses its settings.",
        "Pod {{ $labels.pod }} refused the live settings and keeps the last good ones; the condition"
        " ConfigApplied names the reason.",
    ),
    Alert(
        "SlidingServeConfigNotApplied",
        f"max by ({SERVER}) (slidingserve_config_generation)\n"
        f"  - on ({SERVER}) group_right () min by ({SERVER}, pod) (slidingserve_config_generation) > 0",
        "10m",
        "warning",
        f"{WHERE}: an engine runs old settings.",
        "Pod {{ $labels.pod }} is {{ $value }} generations behind another pod of its resource for 10"
        " minutes.",
    ),
)

RESOURCES = (
    Alert(
        "SLOServeNotReady",
        'sloserve_condition{type="Ready"} == 0\n'
        '  and on (namespace, name) sloserve_replicas{state="desired"} > 0',
        "30m",
        "warning",
        f"{RESOURCE} is not Ready.",
        f"SLOServe {RESOURCE} does not run all engines that it asks for, for 30 minutes: its condition"
        " Ready says why.",
    ),
    Alert(
        "SLOServeSpecInvalid",
        'sloserve_condition{type="SpecValid"} == 0',
        "5m",
        "warning",
        f"{RESOURCE} cannot be acted on.",
        f"The spec of SLOServe {RESOURCE}, or a child that it asks for, is refused; nothing of its last"
        " change is in force. Its condition SpecValid has the API server's sentence.",
    ),
)

CONTROLLER = (
    Alert(
        "SLOServeOperatorNoLeader",
        f"max by (namespace) (sloserve_leader{{{OPERATOR}}}) < 1 or absent(sloserve_leader{{{OPERATOR}}})",
        "5m",
        "warning",
        "No SLOServe operator acts in {{ $labels.namespace }}.",
        "No operator of the release in {{ $labels.namespace }} writes. Engines serve on; changes,"
        " repairs and status wait.",
    ),
    Alert(
        "SLOServeOperatorSeveralLeaders",
        f"sum by (namespace) (sloserve_leader{{{OPERATOR}}}) > 1",
        "5m",
        "warning",
        "Several SLOServe operators write in {{ $labels.namespace }}.",
        "{{ $value }} operators of the release in {{ $labels.namespace }} write at the same time.",
    ),
    Alert(
        "SLOServeOperatorResyncOld",
        f"max by (namespace, pod) (sloserve_last_list_age_seconds{{{OPERATOR}}}) > @resyncAgeSeconds@",
        "2m",
        "warning",
        "The SLOServe operator cannot read the API server.",
        "Pod {{ $labels.pod }} has listed its objects {{ $value | humanizeDuration }} ago for the last time.",
    ),
    Alert(
        "SLOServeOperatorQueueOld",
        f"max by (namespace, pod) (sloserve_queue_oldest_seconds{{{OPERATOR}}}) > @queueAgeSeconds@",
        "5m",
        "warning",
        "The SLOServe operator does not keep up.",
        "A resource waits since {{ $value | humanizeDuration }} for pod {{ $labels.pod }} to look at it.",
    ),
    Alert(
        "SLOServeOperatorFailing",
        f"max by (namespace, pod) (sloserve_queue_failing{{{OPERATOR}}}) > 0",
        "15m",
        "warning",
        "The SLOServe operator fails at some resources.",
        "Each look of pod {{ $labels.pod }} at {{ $value }} resources has failed for 15 minutes; its log"
        " names them.",
    ),
    Alert(
        "SLOServeChildNotWritten",
        "max by (namespace, name) (sloserve_children_unwritten) > 0",
        "15m",
        "warning",
        "Objects of {{ $labels.namespace }}/{{ $labels.name }} cannot be written.",
        "{{ $value }} objects of SLOServe {{ $labels.namespace }}/{{ $labels.name }} are not as it asks"
        " for, for 15 minutes: its condition Ready names them, with the API server's words.",
    ),
    Alert(
        "SLOServeOperatorContested",
        'sum by (namespace, pod, kind) (increase(sloserve_writes_total{result="contested", '
        f"{OPERATOR}}}[10m])) > 0",
        "0m",
        "warning",
        "Somebody changes what the SLOServe operator writes.",
        "Pod {{ $labels.pod }} repaired an object of kind {{ $labels.kind }} five times within a minute and"
        " found it changed back each time.",
    ),
    Alert(
        "SLOServeOperatorErrors",
        'sum by (namespace, pod) (increase(sloserve_reconcile_total{result="error", '
        f"{OPERATOR}}}[15m])) > 0",
        "0m",
        "warning",
        "The SLOServe operator has a fault.",
        "Pod {{ $labels.pod }} broke off {{ $value | humanize }} looks at resources by an error of its own.",
    ),
    Alert(
        "SLOServeOperatorLeaseErrors",
        'sum by (namespace, pod) (increase(sloserve_lease_attempts_total{result="error", '
        f"{OPERATOR}}}[10m])) > 3",
        "0m",
        "warning",
        "The SLOServe operator is close to losing its Lease.",
        "Pod {{ $labels.pod }} could not take or renew the Lease {{ $value | humanize }} times in 10"
        " minutes.",
    ),
    Alert(
        "SLOServeSchemaSkew",
        f"max by (namespace, pod) (sloserve_schema_skew{{{OPERATOR}}}) != 0",
        "10m",
        "warning",
        "CRD and SLOServe operator are of different releases.",
        "The schema version of the CRD differs by {{ $value }} from that of pod {{ $labels.pod }}: below"
        " 0 the CRD is older and drops fields, above 0 it is newer and takes fields that have no effect.",
    ),
)  # fmt: skip

ALERTS = (*SLO, *ENGINE, *RESOURCES, *CONTROLLER)
