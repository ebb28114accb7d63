"""The test cluster's Prometheus by hand: `python -m tests.cluster.monitoring install | query EXPR ...`."""

import argparse
import sys

from tests.cluster import api, monitoring
from tests.cluster.cache import ClusterError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.monitoring", description=monitoring.__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="bring prometheus-operator and Prometheus up; harmless if they are")
    commands.add_parser("uninstall", help="take both away, with their CRDs and every PodMonitor")
    commands.add_parser("targets", help="what is scraped, and whether it answers")
    commands.add_parser("query", help="ask Prometheus").add_argument("expr")
    options = parser.parse_args(arguments)
    try:
        _run(options)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    cluster = api.get()
    prometheus = monitoring.Prometheus(cluster)
    match options.command:
        case "install":
            cluster.up()  # with DNS, which the demo's cluster does without
            monitoring.install(cluster)
        case "uninstall":
            monitoring.uninstall(cluster)
        case "targets":
            for url, health in prometheus.targets().items():
                print(f"{health:8} {url}")
        case "query":
            for sample in prometheus.query(options.expr):
                print(sample.value, " ".join(f"{key}={value}" for key, value in sample.labels.items()))


if __name__ == "__main__":
    sys.exit(main())
