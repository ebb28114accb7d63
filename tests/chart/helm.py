"""Helm on our chart, as the tests need it: rendered documents, refusals, releases on a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import tools
from tests.cluster.api import Cluster

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "sloserve"
LONG = "a23456789-123456789-123456789-123456789-123456789-123"
"""A release name of 53 characters: Helm takes no longer one."""

Values = Mapping[str, Any]

CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "{{ .Release.Name }}-extra", "namespace": "{{ .Release.Namespace }}"},
}
# Every switch of the chart once on and once off: what the schema checks and the install look at.
CASES: dict[str, Values] = {
    "defaults": {},
    "everything on": {
        "images": {"registry": "localhost", "pullSecrets": ["registry"]},
        "monitoring": {
            "podMonitor": {"enabled": True, "interval": "15s", "scrapeTimeout": "5s"},
            "prometheusRule": {"enabled": True, "alertLabels": {"team": "llm"}},
        },
        "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]},
        "extraObjects": [CONFIG_MAP, json.dumps(CONFIG_MAP).replace("-extra", "-more")],
        "grafana": {"dashboards": {"enabled": True}},
        "leaderElection": {"enabled": True},
        "restrictions": {"enabled": True, "allowedImages": ["registry.example.com/team/"]},
        "operator": {
            "replicas": 2,
            "strategy": "RollingUpdate",
            "extraEnv": [{"name": "SLOSERVE_WORKERS", "value": "8"}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"operator": "Exists"}],
            "priorityClassName": "system-cluster-critical",
            "podLabels": {"team": "llm"},
        },
    },
    "two namespaces": {
        "watchNamespaces": ["team-a", "team-b"],
        "rbac": {"aggregateToUserRoles": False},
        "monitoring": {"podMonitor": {"enabled": True}},
        "restrictions": {"enabled": True},
    },
    "scraped through services": {
        "monitoring": {
            "serviceMonitor": {"enabled": True, "interval": "15s", "relabelings": [{"targetLabel": "a"}]},
            "prometheusRule": {"enabled": True, "thresholds": {"resyncAgeSeconds": 100000}},
        },
        "networkPolicy": {"enabled": True, "apiServer": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]},
        "watchNamespaces": ["team-a"],
        "rbac": {"aggregateToUserRoles": False},
    },
    "nothing of its own": {
        "crds": {"enabled": False},
        "rbac": {"create": False, "aggregateToUserRoles": False},
        "serviceAccount": {"create": False, "name": "given"},
    },
}


def helm(
    *arguments: str, cluster: Cluster | None = None, values: Values | None = None, tool: str = "helm"
) -> subprocess.CompletedProcess[str]:
    """Run helm to its end; `values` become a values file on standard input. `tool`: helm or helm4."""
    command = [str(tools.path(tool)), *arguments, *(["--values", "-"] if values is not None else [])]
    environment = cluster.environment() if cluster else None
    text = json.dumps(values) if values is not None else None
    return subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)


def template(values: Values, release: str = "sloserve", namespace: str = "sloserve-system") -> str:
    """The chart rendered; AssertionError with Helm's words if it refuses."""
    done = helm("template", release, str(CHART), "-n", namespace, "--kube-version", "1.34", values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(
    values: Values, release: str = "sloserve", namespace: str = "sloserve-system"
) -> list[dict[str, Any]]:
    """The rendered objects, parsed."""
    return [doc for doc in yaml.safe_load_all(template(values, release, namespace)) if doc]


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """(path, value) of everything in a document that is neither a mapping nor a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value
