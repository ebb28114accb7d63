"""A namespace with an operator of its own: a process beside the cluster with the chart's rights, no more."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests.chart.helm import CHART, helm
from tests.cluster.api import Cluster
from tests.polling import holds as holds
from tests.polling import until as until
from tests.ports import free_port as free_port

Object = dict[str, Any]
CREDENTIAL = "authentication.kubernetes.io/credential-id"
WRITES = ("create", "update", "patch", "delete", "deletecollection")


def spec(**changes: Any) -> Object:
    """A small valid spec without pods; top-level fields can be replaced."""
    return {
        "model": {"uri": "file:///models/demo"},
        "engine": {"accelerator": "cpu", "drainTimeoutSeconds": 0},
        "replicas": 0,
        "sloClasses": [{"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": 40}],
        **changes,
    }


def manifest(name: str = "chat", **changes: Any) -> Object:
    """A SLOServe around `spec`."""
    return {
        "apiVersion": "sloserve.dev/v1alpha1",
        "kind": "SLOServe",
        "metadata": {"name": name},
        "spec": spec(**changes),
    }


def _credential(token: str) -> str:
    """A service account token as the audit log names it: by its identifier."""
    claims = token.split(".")[1]
    return f"JTI={json.loads(base64.urlsafe_b64decode(claims + '=' * (-len(claims) % 4)))['jti']}"


@dataclass
class Space:
    """One namespace, and kubectl on it."""

    cluster: Cluster
    name: str
    directory: Path

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Kubectl in this namespace."""
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin)

    def apply(self, obj: Object) -> None:
        """`kubectl apply`."""
        self.run("apply", "-f", "-", stdin=json.dumps(obj))

    def patch(self, name: str, change: Object) -> int:
        """Merge-patch a SLOServe's spec; its new generation."""
        body = json.dumps({"spec": change})
        answer = json.loads(self.run("patch", "sloserve", name, "--type=merge", "-p", body, "-o", "json"))
        return int(answer["metadata"]["generation"])

    def get(self, kind: str, name: str) -> Object | None:
        """One object, or None."""
        text = self.run("get", kind, name, "--ignore-not-found", "-o", "json", "--show-managed-fields")
        return json.loads(text) if text else None

    def must(self, kind: str, name: str) -> Object:
        """One object that is there."""
        found = self.get(kind, name)
        assert found is not None, f"{kind} {name} is not there"
        return found

    def condition(self, name: str, kind: str) -> Object:
        """A condition of a SLOServe, or an empty dict."""
        status = (self.get("sloserve", name) or {}).get("status", {})
        return next((c for c in status.get("conditions", []) if c["type"] == kind), {})

    def reason(self, name: str, *reasons: str, kind: str = "Ready", seconds: float = 30) -> Object:
        """Wait until a condition has one of the reasons."""

        def look() -> Object | None:
            found = self.condition(name, kind)
            return found if found.get("reason") in reasons else None

        return until(look, f"{name} {kind} {'/'.join(reasons)}", seconds)

    def children(self, name: str) -> list[str]:
        """kind/name of all that bears the resource's label, pods and replica sets left out."""
        kinds = "deployments,services,configmaps,serviceaccounts,pvc,pdb,networkpolicies"
        return self.run("get", kinds, "-l", f"sloserve.dev/name={name}", "-o", "name").split()


class Way(Protocol):
    """A proxy on the way to the API server."""

    def through(self, kubeconfig: Path) -> Path:
        """The same credentials, by way of it."""


@dataclass
class Operator:
    """The operator as a process with the service account that the chart makes."""

    space: Space
    images: tuple[str, str] = ("localhost/none/engine:1", "localhost/none/engine-cpu:1")
    extra: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    name: str = "operator"
    values: Object = field(default_factory=dict)
    proxy: Way | None = None
    code: Path | None = None
    began: int = 0
    granted: Path | None = None
    credentials: set[str] = field(default_factory=set)
    command: list[str] = field(default_factory=lambda: [sys.executable, "-m", "sloserve_operator.app"])

    @property
    def user(self) -> str:
        """Its name in the audit log."""
        return f"system:serviceaccount:{self.space.name}:sloserve"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.space.directory / f"{self.name}.log"

    def grant(self) -> Path:
        """The chart's account and rights for this namespace; a kubeconfig with its token."""
        space = self.space
        values = {"watchNamespaces": [space.name], **self.values}
        parts = [word for part in ("rbac", "serviceaccount") for word in ("-s", f"templates/{part}.yaml")]
        words = ("-n", space.name, "--kube-version=1.34.3", *parts)
        done = helm("template", "sloserve", str(CHART), *words, values=values)
        assert done.returncode == 0, done.stderr
        space.cluster.kubectl("apply", "-f", "-", stdin=done.stdout)  # some may be of other namespaces
        return self.login()

    def login(self) -> Path:
        """A kubeconfig with a token of its account."""
        space = self.space
        token = space.run("create", "token", "sloserve", "--duration=1h").strip()
        config = yaml.safe_load(space.cluster.kubeconfig.read_text())
        self.credentials.add(_credential(token))
        config["users"] = [{"name": "operator", "user": {"token": token}}]
        for context in config["contexts"]:
            context["context"]["user"] = "operator"
        path = space.directory / f"{self.name}-kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return self.proxy.through(path) if self.proxy else path

    def start(self) -> None:
        """Start it and wait for its first line about the watches."""
        self.launch()
        until(lambda: self.said("watching", after=self.began), f"start, see {self.log}")

    def launch(self) -> None:
        """Start it, with the rights of its first start."""
        self.granted = self.granted or self.grant()
        settings = {
            "KUBECONFIG": str(self.granted),
            "NAMESPACES": self.space.name,
            "ENGINE_IMAGE": self.images[0],
            "ENGINE_IMAGE_CPU": self.images[1],
            "HEALTH_PORT": "0",
            "METRICS_PORT": "0",
            **self.extra,
        }
        environment = {**os.environ, **{f"SLOSERVE_{key}": value for key, value in settings.items()}}
        if self.code:
            environment["PYTHONPATH"] = str(self.code)
        self.began = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, env=environment, stdout=log, stderr=log)

    def said(self, text: str, after: int = 0) -> Object | None:
        """The first line of its log, from an offset on, with this message or error."""
        for line in self.log.read_bytes()[after:].splitlines():
            with contextlib.suppress(ValueError):
                entry: Object = json.loads(line)
                if text in (entry.get("event"), entry.get("error")):
                    return entry
        return None

    def fetch(self, path: str, port: str = "HEALTH_PORT") -> tuple[int, str]:
        """Status and text of a page of its own, on the port of this setting."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.extra[port]}{path}", timeout=5) as got:
                return int(got.status), str(got.read().decode())
        except urllib.error.HTTPError as error:
            return error.code, str(error.read().decode())

    def ended(self, seconds: float = 60) -> int:
        """Wait until it ends by itself; its exit status."""
        assert self.process is not None
        status = self.process.wait(timeout=seconds)
        self.process = None
        return status

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(timeout=30)
        self.process = None
        return status

    def kill(self) -> None:
        """SIGKILL, if it runs; also when it was stopped."""
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.stop(signal.SIGKILL)

    def written(self, since: int) -> Iterator[Object]:
        """Each write under its tokens after an offset of the audit log."""
        return (event for event in self.asked(since) if event["verb"] in WRITES)

    def asked(self, since: int) -> Iterator[Object]:
        """Each request under its tokens after an offset of the audit log."""
        path = self.space.cluster.audit_log()
        assert path is not None
        with path.open("rb") as log:
            log.seek(since)
            lines = log.read().split(b"\n")[:-1]
        for event in map(json.loads, filter(None, lines)):
            extra = event["user"].get("extra", {}).get(CREDENTIAL, [])
            if not self.credentials.isdisjoint(extra):
                yield event

    def writes(self, since: int) -> list[str]:
        """`verb resource/subresource name code` of each write of its own after an offset of the audit log."""
        found = []
        for event in self.written(since):
            target = event.get("objectRef", {})
            what = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
            code = event.get("responseStatus", {}).get("code")
            found.append(f"{event['verb']} {what} {target.get('name', '')} {code}")
        return found

    def mark(self) -> int:
        """The end of the audit log, for `writes`."""
        path = self.space.cluster.audit_log()
        assert path is not None, "the audit log is needed: use CLUSTER=local"
        return path.stat().st_size
