"""Every metric of SlidingServe in one table: the truth for the code, for docs/reference/metrics.md and for the tests.

All processes (API servers and engine cores) share vLLM's multiprocess registry, so the series appear on vLLM's own
`/metrics`. Attainment is counted in the API servers, plans and the predictor in the cores.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from prometheus_client.metrics import MetricWrapperBase

Kind = Literal["counter", "gauge", "histogram"]
Mode = Literal["livemostrecent", "livemin", "livemax", "livesum"]

TOKENS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384)
STEP = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.015,
    0.02,
    0.03,
    0.04,
    0.06,
    0.08,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.6,
    0.8,
    1,
    2,
    5,
    10,
)
ERROR = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)
SIGNED = (*(-bound for bound in reversed(ERROR)), 0, *ERROR)
PLAN = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
LATENCY = (
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.15,
    0.2,
    0.3,
    0.5,
    0.75,
    1,
    1.5,
    2,
    3,
    5,
    7.5,
    10,
    15,
    20,
    30,
    60,
    120,
)
SLACK = (-60, -30, -10, -5, -2, -1, -0.5, -0.2, -0.1, -0.05, 0, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)

PREFIX = "slidingserve_"

logger = logging.getLogger("vllm.slidingserve")


@dataclass(frozen=True)
class Metric:
    """One row. `name` is without prefix and without a counter's `_total`; `mode` merges a gauge over processes."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    where: Literal["api", "core", "both"]
    help: str
    buckets: tuple[float, ...] = ()
    mode: Mode = "livemostrecent"

    @property
    def sample(self) -> str:
        """The name that a query uses (a histogram's is a base for _bucket, _sum and _count)."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


TABLE: tuple[Metric, ...] = (
    Metric(
        "requests", "counter", ("slo_class",), "api", "Requests accepted, or refused for overload (429, 503)."
    ),
    Metric(
        "slo_good",
        "counter",
        ("slo_class", "objective"),
        "api",
        "Requests that kept an objective: ttft (first token), tbt (every later token) or request (both).",
    ),
    Metric(
        "slo_violations",
        "counter",
        ("slo_class", "objective"),
        "api",
        "Requests that missed an objective by equation 1, ended in an error, or were refused for overload.",
    ),
    Metric(
        "client_disconnects", "counter", ("slo_class",), "api", "Requests whose client left before the end."
    ),
    Metric("ttft_seconds", "histogram", ("slo_class",), "api", "Arrival to first token.", LATENCY),
    Metric(
        "tbt_seconds", "histogram", ("slo_class",), "api", "Gap between two tokens of one sequence.", LATENCY
    ),
    Metric(
        "slack_at_completion_seconds",
        "histogram",
        ("slo_class",),
        "api",
        "Deadline of the last token less the time it came; negative when it was late.",
        SLACK,
    ),
    Metric(
        "slo_target_seconds",
        "gauge",
        ("slo_class", "objective"),
        "api",
        "The class's limit for ttft and tbt. NaN for a class that is gone, and for a ttft that is a slowdown.",
    ),
    Metric(
        "slo_objective_ratio",
        "gauge",
        ("slo_class",),
        "api",
        "Share of requests that should keep the promise.",
    ),
    Metric(
        "plans",
        "counter",
        ("engine", "policy", "branch"),
        "core",
        "Steps by what decided them: chunker, constructor, fallback (the plan failed) or stock (vLLM's own order).",
    ),
    Metric(
        "planner_errors",
        "counter",
        ("engine",),
        "core",
        "Plans that failed; the step ran in vLLM's own order.",
    ),
    Metric("plan_seconds", "histogram", ("engine", "policy"), "core", "Time to make and apply a plan.", PLAN),
    Metric(
        "chunk_tokens", "histogram", ("engine",), "core", "Prefill tokens of a batch that had any.", TOKENS
    ),
    Metric("batch_tokens", "histogram", ("engine",), "core", "Tokens of a batch, decodes included.", TOKENS),
    Metric("batch_seconds", "histogram", ("engine", "scene"), "core", "Measured time of a batch.", STEP),
    Metric(
        "predicted_batch_seconds",
        "histogram",
        ("engine", "scene"),
        "core",
        "Predicted time of the batch that was really run.",
        STEP,
    ),
    Metric(
        "predictor_error_seconds",
        "histogram",
        ("engine", "scene"),
        "core",
        "Measured less predicted time.",
        SIGNED,
    ),
    Metric(
        "predictor_abs_error_seconds",
        "histogram",
        ("engine", "scene"),
        "core",
        "Distance between measured and predicted time.",
        ERROR,
    ),
    Metric(
        "predictor_refreshes", "counter", ("engine",), "core", "Models fitted and put in force while serving."
    ),
    Metric(
        "predictor_r2",
        "gauge",
        ("engine", "scene"),
        "core",
        "Share of variance that the model in force explains.",
    ),
    Metric(
        "predictor_age_seconds", "gauge", ("engine",), "core", "Time since the model in force was fitted."
    ),
    Metric(
        "queue_requests", "gauge", ("engine", "phase"), "core", "Requests by phase: waiting, prefill, decode."
    ),
    Metric("alpha", "gauge", ("engine",), "core", "Alpha in force."),
    Metric(
        "fallback",
        "gauge",
        ("engine",),
        "both",
        "1 when vLLM's own scheduler runs instead of ours.",
        mode="livemax",
    ),
    Metric(
        "config_reloads",
        "counter",
        ("role", "result"),
        "both",
        "Configuration files read: applied or rejected.",
    ),
    Metric(
        "config_generation",
        "gauge",
        ("role",),
        "both",
        "Generation in force, the lowest over the processes.",
        mode="livemin",
    ),
)


@cache
def _collectors() -> dict[str, MetricWrapperBase]:
    """Make every collector once a process. Import only after PROMETHEUS_MULTIPROC_DIR is set: it decides the storage."""
    from prometheus_client import Counter, Gauge, Histogram

    made: dict[str, MetricWrapperBase] = {}
    for metric in TABLE:
        name = PREFIX + metric.name
        if metric.kind == "counter":
            made[metric.name] = Counter(name, metric.help, metric.labels)
        elif metric.kind == "gauge":
            made[metric.name] = Gauge(name, metric.help, metric.labels, multiprocess_mode=metric.mode)
        else:
            made[metric.name] = Histogram(name, metric.help, metric.labels, buckets=metric.buckets)
    return made


@cache
def series(name: str, *labels: str) -> Any:
    """The series of a table row for label values in the table's order; cached, since it is asked for every token.

    Raises KeyError for a name that is not in the table.
    """
    return _collectors()[name].labels(*labels)


def touch(where: str, **values: tuple[str, ...]) -> None:
    """Create the series of a process at zero, so that rates and alerts see their first increase.

    `values` gives the label values by label name; a row is created for every combination, where all its labels are
    given and it is counted in `where`.
    """
    from itertools import product

    for metric in TABLE:
        if metric.where not in (where, "both") or not all(label in values for label in metric.labels):
            continue
        for combination in product(*(values[label] for label in metric.labels)):
            series(metric.name, *combination)


def reference_page() -> str:
    """docs/reference/metrics.md, generated."""
    lines = [
        "# Metrics of the engine",
        "",
        "<!-- Generated from slidingserve/server/metrics.py by `make generate`; edit the table there. -->",
        "",
        "They appear on the same `/metrics` as vLLM's own. Times are in seconds. `engine` is the data parallel rank,",
        "`slo_class` the class of a request, `scene` one of decode, prefill and mixed, `role` api or core. Several API",
        "servers and cores are merged: counters and histograms are summed, a gauge as its row says.",
        "",
        "Attainment of a class, without bucket edges:",
        "",
        "```promql",
        'sum by (slo_class) (rate(slidingserve_slo_good_total{objective="request"}[5m]))',
        '  / (sum by (slo_class) (rate(slidingserve_slo_good_total{objective="request"}[5m]))',
        '   + sum by (slo_class) (rate(slidingserve_slo_violations_total{objective="request"}[5m])))',
        "```",
        "",
        "| metric | type | labels | counted in | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    merged = {"livemostrecent": "last written", "livemin": "lowest", "livemax": "highest", "livesum": "sum"}
    for metric in TABLE:
        kind = f"{metric.kind}, {merged[metric.mode]}" if metric.kind == "gauge" else metric.kind
        where = {"api": "API server", "core": "engine core", "both": "both"}[metric.where]
        labels = ", ".join(metric.labels)
        lines.append(f"| `{metric.sample}` | {kind} | {labels} | {where} | {metric.help} |")
    return "\n".join(lines) + "\n"
