"""Logs and own metrics (prefix sloserve_). Set up by `app`, written to by all that changes anything.

One structured line per change, with namespace, name and generation; everything else is debug.
"""

import logging
import sys
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


def configure_logging(form: str, level: str) -> None:
    """Send structlog and the standard library (kopf) through one formatter to stderr."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if form == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # kopf tells of every event at info; its warnings and errors are what matters here.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class Telemetry:
    """The process's metrics; series of a resource go when it goes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.reconciles = Counter("sloserve_reconcile", "Reconciles by result", ["result"], **made)
        self.seconds = Histogram(
            "sloserve_reconcile_duration_seconds", "Time of one reconcile", **made,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )  # fmt: skip
        self.writes = Counter(
            "sloserve_writes", "Writes to the API server", ["kind", "verb", "result"], **made
        )
        self.nudges = Counter("sloserve_config_nudges", "Nudges of pods with new live settings", **made)
        self.events = Counter("sloserve_watch_events", "Events from the watches", ["kind"], **made)
        self.queue_depth = Gauge("sloserve_queue_depth", "Resources that wait for a look", **made)
        self.queue_oldest = Gauge("sloserve_queue_oldest_seconds", "Age of the oldest overdue look", **made)
        self.last_list = Gauge(
            "sloserve_last_list_timestamp_seconds", "Time of the last complete LIST", **made
        )
        self.lagging = Gauge("sloserve_watch_lagging_objects", "Listed objects that no watch told of", **made)
        labels = ["namespace", "name"]
        self.condition = Gauge(
            "sloserve_condition", "1 if the condition is True, 0 if not", [*labels, "type"], **made
        )
        self.replicas = Gauge("sloserve_replicas", "Engines of a resource", [*labels, "state"], **made)

    def write(self, kind: str, verb: str, result: str = "ok") -> None:
        """Count one write."""
        self.writes.labels(kind, verb, result).inc()

    def show(self, namespace: str, name: str, desired: int, status: dict[str, Any]) -> None:
        """Publish what was written to a resource's status."""
        for condition in status["conditions"]:
            value = 1 if condition["status"] == "True" else 0
            self.condition.labels(namespace, name, condition["type"]).set(value)
        self.replicas.labels(namespace, name, "desired").set(desired)
        self.replicas.labels(namespace, name, "ready").set(status["readyReplicas"])

    def forget(self, namespace: str, name: str) -> None:
        """Remove the series of a resource that is gone."""
        for gauge in (self.condition, self.replicas):
            gauge.remove_by_labels({"namespace": namespace, "name": name})
