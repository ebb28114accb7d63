"""The process's own metrics (prefix sloserve_). Made by `app`, written to by all that changes anything."""

from collections.abc import Callable
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Metric = TypeVar("Metric", Counter, Gauge, Histogram)
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Telemetry:
    """The process's metrics; series of a resource go when it goes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.table: list[tuple[str, str, tuple[str, ...], str]] = []
        self.reconciles = self._add(Counter, "sloserve_reconcile", "Looks at a resource, by result: ok; "
            "retry (the API server did not do as asked); error (our own fault).", "result")  # fmt: skip
        self.seconds = self._add(Histogram, "sloserve_reconcile_duration_seconds", "Time of one look.",
            buckets=DURATIONS)  # fmt: skip
        self.writes = self._add(Counter, "sloserve_writes", "Writes to the API server; result is ok, the "
            "HTTP status (0 without an answer), or contested: not made, as it is changed back each time.",
            "kind", "verb", "result")  # fmt: skip
        self.nudges = self._add(Counter, "sloserve_config_nudges", "Nudges of pods with new live settings.")
        self.events = self._add(Counter, "sloserve_watch_events", "Events from the watches.", "kind")
        self.queue_depth = self._add(Gauge, "sloserve_queue_depth", "Resources that are due for a look now.")
        self.queue_oldest = self._add(Gauge, "sloserve_queue_oldest_seconds", "Age of the oldest look that "
            "is due or under way; /livez fails above 300.")  # fmt: skip
        self.queue_failing = self._add(Gauge, "sloserve_queue_failing", "Resources whose last look failed.")
        self.last_list = self._add(Gauge, "sloserve_last_list_timestamp_seconds", "Time of the last complete "
            "LIST of all kinds.")  # fmt: skip
        self.list_age = self._add(Gauge, "sloserve_last_list_age_seconds", "Time since the last complete "
            "LIST or the start; /livez fails above five times the resync time and a minute.")  # fmt: skip
        self.lagging = self._add(Gauge, "sloserve_watch_lagging_objects", "Listed objects that no watch told "
            "of; /livez fails when one stays so for two LISTs.")  # fmt: skip
        self.leader = self._add(Gauge, "sloserve_leader", "1 if this process writes: it holds the Lease, or "
            "there is no election. 0 for a standby.")  # fmt: skip
        self.lease_calls = self._add(Counter, "sloserve_lease_attempts", "Tries to take or renew the Lease, "
            "by result: renewed, standby (another holds it), conflict, error.", "result")  # fmt: skip
        self.schema_skew = self._add(Gauge, "sloserve_schema_skew", "Schema version of the CRD in the "
            "cluster less this operator's: below 0 the CRD is older, above 0 newer. 0 also where it cannot "
            "be read.")  # fmt: skip
        labels = ("namespace", "name")
        self.condition = self._add(Gauge, "sloserve_condition", "1 if the condition is True, 0 if not; the "
            "leader's alone.", *labels, "type")  # fmt: skip
        self.unwritten = self._add(Gauge, "sloserve_children_unwritten", "Children of a resource that "
            "are not as it asks for, by fault of somebody else; the leader's alone.", *labels)  # fmt: skip
        self.replicas = self._add(Gauge, "sloserve_replicas", "Engines of a resource; state is desired or "
            "ready; the leader's alone.", *labels, "state")  # fmt: skip

    def _add(self, kind: type[Metric], name: str, text: str, *labels: str, **more: Any) -> Metric:
        sample = f"{name}_total" if kind is Counter else name
        self.table.append((sample, kind.__name__.lower(), labels, text))
        return kind(name, text, labels, registry=self.registry, **more)

    def follow(
        self,
        depth: Callable[[], float],
        oldest: Callable[[], float],
        failing: Callable[[], float],
        list_age: Callable[[], float],
    ) -> None:
        """Read these when the metrics are read: what a stuck process sets by itself would stand still."""
        self.queue_depth.set_function(depth)
        self.queue_oldest.set_function(oldest)
        self.queue_failing.set_function(failing)
        self.list_age.set_function(list_age)

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
        for gauge in (self.condition, self.replicas, self.unwritten):
            gauge.remove_by_labels({"namespace": namespace, "name": name})


def generated_files() -> dict[str, str]:
    """What `make generate` writes from here: the reference page of the metrics."""
    lines = [
        "# Metrics of the operator",
        "",
        "<!-- Generated from sloserve_operator/telemetry.py by `make generate`; edit the table there. -->",
        "",
        "On the operator's metrics port, `/metrics`. A *look* is one pass over one resource: compare what is",
        "with what should be, and write the difference. What to do when one of them is odd is in",
        "[operations.md](../operations.md#the-operator-itself).",
        "",
        "| metric | type | labels | meaning |",
        "| --- | --- | --- | --- |",
    ]
    rows = Telemetry().table
    lines += [f"| `{name}` | {kind} | {', '.join(labels)} | {text} |" for name, kind, labels, text in rows]
    return {"docs/reference/operator-metrics.md": "\n".join(lines) + "\n"}
