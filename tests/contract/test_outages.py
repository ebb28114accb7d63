"""What goes away as a whole and comes back: the CRD, the API server, etcd, the operator's token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sloserve_operator.api import CRD

from tests.cluster.api import Cluster
from tests.cluster.local import LocalCluster
from tests.contract.proxy import proxied
from tests.contract.space import Operator, Space, free_port, manifest, until

pytestmark = pytest.mark.cluster
QUICK = {"CALL_TIMEOUT_SECONDS": "3", "RESYNC_SECONDS": "10"}


def probe(operator: Operator, path: str) -> tuple[int, str]:
    """Status and first line of /livez or /readyz."""
    status, text = operator.fetch(f"/{path}")
    return status, text.splitlines()[0]


def is_ready(operator: Operator) -> bool:
    return probe(operator, "readyz") == (200, "ok")


@pytest.fixture
def watched(space: Space) -> Iterator[Operator]:
    """An operator whose health can be asked; not started."""
    operator = Operator(space, extra={**QUICK, "HEALTH_PORT": str(free_port())})
    yield operator
    operator.kill()


@pytest.fixture
def crd_to_lose(cluster: Cluster, crd: None) -> Iterator[str]:
    """The CRD as it is, to be put back; nobody else's resources may go with it."""
    others = json.loads(cluster.kubectl("get", "sloserves", "-A", "-o", "json"))["items"]
    if others:
        pytest.skip("this cluster has SLOServes that would be lost")
    obj: dict[str, Any] = json.loads(cluster.kubectl("get", "crd", CRD, "-o", "json"))
    for name in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        obj["metadata"].pop(name, None)
    obj.pop("status", None)
    text = json.dumps(obj)
    yield text
    put(cluster, text)


def put(cluster: Cluster, crd: str) -> None:
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=crd)
    until(lambda: cluster.kubectl_result("get", "sloserves", "-A").returncode == 0, "the CRD served")


def waits_for_crd(operator: Operator) -> bool:
    status, text = probe(operator, "readyz")
    return status == 503 and "is not installed: install the chart with crds.enabled=true" in text


def test_without_the_crd_it_waits_and_goes_on_when_it_comes_and_when_it_comes_again(
    space: Space, crd_to_lose: str, watched: Operator
) -> None:
    space.cluster.kubectl("delete", "crd", CRD, "--timeout=60s")
    watched.launch()
    until(lambda: watched.said("waiting"), "it says what it waits for")
    until(lambda: waits_for_crd(watched), "and in its health")
    assert probe(watched, "livez") == (200, "ok"), "a restart would not help"

    put(space.cluster, crd_to_lose)
    space.apply(manifest())
    space.reason("chat", "ScaledToZero", seconds=60)
    assert is_ready(watched)
    assert watched.log.read_text().count('"waiting"') == 1, "one line, however long it waits"

    space.cluster.kubectl("delete", "crd", CRD, "--timeout=60s")
    until(lambda: waits_for_crd(watched), "it notices", 60)
    assert probe(watched, "livez") == (200, "ok")
    put(space.cluster, crd_to_lose)
    space.apply(manifest("again"))
    space.reason("again", "ScaledToZero", seconds=60)
    until(lambda: is_ready(watched), "it is ready again")
    assert watched.process
    assert watched.process.poll() is None, "all in one life"
    assert "Traceback" not in watched.log.read_text()


def settled_anew(space: Space, name: str) -> None:
    """A new resource is done and a deleted child is there again."""
    space.apply(manifest(name))
    space.run("delete", "service", "chat")
    space.reason(name, "ScaledToZero", seconds=120)
    until(lambda: space.get("service", "chat"), "what was deleted is there again", 120)


def test_api_server_and_etcd_may_be_killed_and_come_back(space: Space, watched: Operator) -> None:
    if not isinstance(space.cluster, LocalCluster):
        pytest.skip("the API server of another cluster is not ours to kill")
    cluster, node = space.cluster, space.cluster.node
    watched.start()
    space.apply(manifest())
    space.reason("chat", "ScaledToZero")
    for name in ("kube-apiserver", "etcd"):
        process = node.process(name)
        assert process
        process.kill()
    until(lambda: watched.said("LIST failed"), "it notices", 60)
    assert probe(watched, "livez") == (200, "ok"), "a restart would not help, and engines serve on"
    for name in ("etcd", "kube-apiserver"):
        node.start(name)
    until(cluster.is_up, "the API server", 60)
    settled_anew(space, "later")
    until(lambda: is_ready(watched), "it is ready")
    assert watched.process
    assert watched.process.poll() is None, "all in one life"
    assert "Traceback" not in watched.log.read_text()
    # Its informers may wait a minute before they try again, and the next test needs it.
    controllers = node.process("kube-controller-manager")
    assert controllers
    controllers.kill()
    node.start("kube-controller-manager")


def bound_token(space: Space, secret: str) -> str:
    """A token that the API server takes for as long as the Secret is there."""
    space.run("create", "secret", "generic", secret)
    bound = ("--bound-object-kind=Secret", f"--bound-object-name={secret}")
    return space.run("create", "token", "sloserve", *bound).strip()


def test_a_token_that_is_no_longer_taken_is_read_again_from_its_file(space: Space, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with proxied(space.cluster.kubeconfig) as proxy:
        quick = {**QUICK, "RESYNC_SECONDS": "2", "HEALTH_PORT": str(free_port())}
        operator = TokenFile(space, extra=quick, proxy=proxy)
        operator.file = file
        try:
            operator.start()
            space.apply(manifest())
            space.reason("chat", "ScaledToZero")
            space.run("delete", "secret", "first")
            until(lambda: operator.said("LIST failed"), "the API server refuses the first token", 60)
            proxy.drop()  # a watch that is open is not asked for its token again
            until(lambda: operator.said("waiting"), "the watches are refused too", 60)
            assert "Unauthorized" in operator.log.read_text()
            assert not is_ready(operator)
            assert probe(operator, "livez") == (200, "ok")
            file.write_text(bound_token(space, "second"))
            settled_anew(space, "later")
            until(lambda: is_ready(operator), "it is ready again")
            text = operator.log.read_text()
            assert "Traceback" not in text
            assert file.read_text() not in text
            assert operator.process
            assert operator.process.poll() is None, "all in one life"
        finally:
            operator.kill()


class TokenFile(Operator):
    """Finds its token in a file, as in a pod."""

    file: Path

    def grant(self) -> Path:
        """As always, but with the token of the Secret `first` in the file."""
        path = super().grant()
        config = yaml.safe_load(path.read_text())
        self.file.write_text(bound_token(self.space, "first"))
        config["users"] = [{"name": "operator", "user": {"tokenFile": str(self.file)}}]
        path.write_text(yaml.safe_dump(config))
        return path
