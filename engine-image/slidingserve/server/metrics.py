"""Every metric of SlidingServe in one table: the truth for the code, for docs/reference/metrics.md and for
the tests.

All processes (API servers and engine cores) share vLLM's multiprocess registry, so the series appear on
vLLM's own `/metrics`. Attainment is counted in the API servers, plans and the predictor in the cores.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from prometheus_client.metrics import MetricWrapperBase

Kind = Literal["counter", "gauge", "histogram"]
Where = Literal["api", "core", "both"]
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
    """One row. `name` is without prefix and without a counter's `_total`; `mode` merges a gauge over
    processes."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    where: Where
    help: str
    buckets: tuple[float, ...] = ()
    mode: Mode = "livemostrecent"

    @property
    def sample(self) -> str:
        """The name that a query uses (a histogram's is a base for _bucket, _sum and _count)."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


def _counter(name: str, labels: str, where: Where, text: str) -> Metric:
    return Metric(name, "counter", tuple(labels.split()), where, text)


def _gauge(name: str, labels: str, where: Where, text: str, mode: Mode = "livemostrecent") -> Metric:
    return Metric(name, "gauge", tuple(labels.split()), where, text, mode=mode)


def _histogram(name: str, labels: str, where: Where, text: str, buckets: tuple[float, ...]) -> Metric:
    return Metric(name, "histogram", tuple(labels.split()), where, text, buckets)


TABLE: tuple[Metric, ...] = (
    _counter(
        "requests", "slo_class", "api", "Requests accepted, or refused for overload (429) or by a failure."
    ),
    _counter(
        "slo_good", "slo_class objective", "api", "Requests that kept ttft, tbt (every later token) or both."
    ),
    _counter(
        "slo_violations", "slo_class objective", "api", "Requests that missed it, failed or were refused."
    ),
    _counter(
        "deadlines_clamped", "slo_class", "api", "Requests that asked for 0 ms or more than a day; served so."
    ),
    _counter("client_disconnects", "slo_class", "api", "Requests whose client left before the end."),
    _histogram("ttft_seconds", "slo_class", "api", "Arrival to first token.", LATENCY),
    _histogram("tbt_seconds", "slo_class", "api", "Gap between two tokens of one sequence.", LATENCY),
    _histogram(
        "slack_at_completion_seconds", "slo_class", "api", "Deadline of the last token less its time.", SLACK
    ),
    _gauge(
        "slo_target_seconds", "slo_class objective", "api", "Limit of a class; NaN if gone, or if a slowdown."
    ),
    _gauge("slo_objective_ratio", "slo_class", "api", "Share of requests that should keep the promise."),
    _counter(
        "plans", "engine policy branch", "core", "Steps by what decided them; stock is vLLM's own order."
    ),
    _counter("planner_errors", "engine", "core", "Plans that failed; vLLM's own order served the step."),
    _histogram("plan_seconds", "engine policy", "core", "Time to make and apply a plan.", PLAN),
    _histogram("chunk_tokens", "engine", "core", "Prefill tokens of a batch that had any.", TOKENS),
    _histogram("batch_tokens", "engine", "core", "Tokens of a batch, decodes included.", TOKENS),
    _histogram("batch_seconds", "engine scene", "core", "Measured time of a batch.", STEP),
    _histogram(
        "predicted_batch_seconds", "engine scene", "core", "Predicted time of the batch really run.", STEP
    ),
    _histogram("predictor_error_seconds", "engine scene", "core", "Measured less predicted time.", SIGNED),
    _histogram(
        "predictor_abs_error_seconds", "engine scene", "core", "Measured to predicted, distance.", ERROR
    ),
    _counter("predictor_refreshes", "engine", "core", "Models fitted and put in force while serving."),
    _gauge("predictor_r2", "engine scene", "core", "Share of variance that the model in force explains."),
    _gauge("predictor_age_seconds", "engine", "core", "Time since the model in force was fitted."),
    _gauge("queue_requests", "engine phase", "core", "Requests by phase: waiting, prefill, decode."),
    _gauge("alpha", "engine", "core", "Alpha in force."),
    _gauge("fallback", "engine", "both", "1 when vLLM's own scheduler runs instead of ours.", "livemax"),
    _counter("config_reloads", "role result", "both", "Configuration files read: applied or rejected."),
    _gauge("config_generation", "role", "both", "Generation in force, lowest over the processes.", "livemin"),
)


@cache
def _collectors() -> dict[str, MetricWrapperBase]:
    """Make every collector once a process. Import only after PROMETHEUS_MULTIPROC_DIR is set: it decides
    the storage."""
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
    """The series of a table row for label values in the table's order; cached, since it is asked for every
    token.

    Raises KeyError for a name that is not in the table.
    """
    return _collectors()[name].labels(*labels)


def touch(where: str, **values: tuple[str, ...]) -> None:
    """Create the series of a process at zero, so that rates and alerts see their first increase.

    `values` gives the label values by label name; a row is created for every combination, where all its
    labels are given and it is counted in `where`.
    """
    for metric in TABLE:
        if metric.where not in (where, "both") or not all(label in values for label in metric.labels):
            continue
        for combination in product(*(values[label] for label in metric.labels)):
            series(metric.name, *combination)
