"""Every answer that an API server may give instead of the one hoped for: nothing is lost, nothing spins."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.cluster.api import Cluster
from tests.contract.http_proxy import Fault, HttpProxy, answering
from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass
class Faulty:
    """An operator whose API server answers as a test wants."""

    space: Space
    proxy: HttpProxy
    operator: Operator
    value: int = 40

    def change(self, name: str) -> None:
        """Ask for something new of one resource, which may not exist yet."""
        self.value += 1
        one = {"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": self.value}
        self.space.apply(manifest(name, sloClasses=[one]))

    def done(self, name: str) -> bool:
        """Whether the last change is in the child and in the status."""
        config, obj = self.space.get("configmap", f"{name}-config"), self.space.must("sloserve", name)
        if config is None or f'"tbtMilliseconds":{self.value}' not in _dense(config):
            return False
        return bool(obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"])

    def settles(self, name: str) -> None:
        """Wait for it; the process lives."""

        def done() -> bool:
            assert self.operator.process
            assert self.operator.process.poll() is None, "it lives"
            return self.done(name)

        until(done, f"{name} is as asked for, see {self.operator.log}", 60)


def _dense(config: dict[str, dict[str, str]]) -> str:
    return config["data"]["slidingserve.json"].replace(" ", "").replace(".0", "")


@pytest.fixture(scope="module")
def faulty(cluster: Cluster, crd: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    """One for all tests here; each has a resource of its own."""
    name = f"test-{secrets.token_hex(4)}"
    directory: Path = tmp_path_factory.mktemp("faulty")
    cluster.kubectl("create", "namespace", name)
    space = Space(cluster, name, directory)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.kubectl, "delete", "namespace", name, "--wait=false")
        proxy = stack.enter_context(answering(cluster.kubeconfig, directory / "pki"))
        operator = Operator(space, proxy=proxy, extra={"RESYNC_SECONDS": "600", "POLL_SECONDS": "600"})
        operator.start()
        stack.callback(operator.kill)
        yield Faulty(space, proxy, operator)
        space.run("delete", "sloserves", "--all", "--timeout=60s")


@pytest.mark.parametrize("status", [401, 409, 410, 500, 503])
def test_a_refused_write_is_made_again_and_not_more_often_than_needed(faulty: Faulty, status: int) -> None:
    name = f"write-{status}"
    mark, fault = len(faulty.proxy.calls), Fault(status, method="POST", path="/configmaps", times=2)
    faulty.proxy.faults.append(fault)
    faulty.change(name)
    faulty.settles(name)
    writes = [call for call in faulty.proxy.since(mark) if call.method in WRITES]
    assert fault.given == 2, "or nothing is shown"
    refused = [call for call in writes if call.status == status]
    assert len(refused) == 2
    # Five children by POST and a patch each, status and event; some of it once more after each refusal.
    assert len(writes) < 24, writes


def test_a_write_that_conflicts_is_made_again(faulty: Faulty) -> None:
    faulty.change("conflict")
    faulty.settles("conflict")
    mark, fault = len(faulty.proxy.calls), Fault(409, method="PATCH", path="/conflict-config")
    faulty.proxy.faults.append(fault)
    faulty.change("conflict")
    faulty.settles("conflict")
    assert fault.given == 1
    assert len(faulty.proxy.since(mark)) < 16, faulty.proxy.since(mark)


def test_a_child_that_is_refused_waits_for_another_spec(faulty: Faulty) -> None:
    fault = Fault(422, method="POST", path="/deployments", times=1000)
    faulty.proxy.faults.append(fault)
    faulty.change("refused")
    faulty.space.reason("refused", "ChildRefused", kind="SpecValid")
    assert "injected 422" in faulty.space.condition("refused", "SpecValid")["message"]
    faulty.space.run("annotate", "sloserve", "refused", "look=again")
    faulty.change("other")
    faulty.settles("other")  # and by then the annotation was looked at
    assert fault.given == 1 + 1, "once for each of the two resources, whatever else happens"
    fault.times = fault.given
    faulty.space.patch("refused", {"engine": {"maxModelLength": 64}})
    until(lambda: faulty.space.get("deployment", "refused"), "the Deployment")
    assert faulty.space.reason("refused", "Valid", kind="SpecValid")["status"] == "True"


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_for_patience_hears_nothing_for_so_long(faulty: Faulty, status: int) -> None:
    name = f"patience-{status}"
    fault = Fault(status, method="POST", path="/serviceaccounts", retry_after=3)
    faulty.proxy.faults.append(fault)
    faulty.change(name)
    until(lambda: fault.given, "the refusal")
    asked, mark = time.monotonic(), len(faulty.proxy.calls)
    # Other resources' events come meanwhile; their looks wait as well.
    faulty.space.run("annotate", "sloserves", "--all", f"touched={status}", "--overwrite")
    until(lambda: faulty.proxy.since(mark), "the next call")
    assert time.monotonic() - asked > 2.5
    faulty.settles(name)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(410, event=True, times=9),
        Fault(403, times=9),
        Fault(429, times=9, retry_after=1),
        Fault(500, times=9),
        # What kopf gives up at: the watches are begun anew.
        Fault(500, event=True),
        Fault(401),
        Fault(404),
        Fault(410),
    ],
    ids=lambda fault: f"{fault.status}-{'event' if fault.event else 'answer'}",
)
def test_watches_that_are_dropped_and_then_refused_miss_nothing(faulty: Faulty, fault: Fault) -> None:
    name = f"watch-{fault.status}-{'event' if fault.event else 'answer'}"
    faulty.change(name)
    faulty.settles(name)
    fault.watch, mark = True, len(faulty.proxy.calls)
    faulty.proxy.faults.append(fault)
    faulty.proxy.end_watches()
    faulty.change(name)
    faulty.space.run("delete", "service", name)
    faulty.settles(name)
    until(lambda: faulty.space.get("service", name), "the deleted child", 60)
    assert fault.given > 0, "or nothing is shown"
    # Nine kinds, each refused once or twice, and what one refusal of a kind costs the others.
    assert len(faulty.proxy.since(mark, watch=True)) < 60


def test_none_of_it_was_told_with_a_traceback_or_a_token(faulty: Faulty) -> None:
    text = faulty.operator.log.read_text()
    assert "Traceback" not in text
    (path,) = faulty.space.directory.glob("operator-kubeconfig")
    token = yaml.safe_load(path.read_text())["users"][0]["user"]["token"]
    assert token.split(".")[1] not in text
    for line in text.splitlines():
        assert {"event", "level", "timestamp", "logger"} <= json.loads(line).keys()
