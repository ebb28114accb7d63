"""CRD and operator of two releases: what is said, and when."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from sloserve_operator.api import SCHEMA_ANNOTATION, SCHEMA_VERSION
from sloserve_operator.kube import KubeError
from sloserve_operator.skew import Skew, compare, version_of
from sloserve_operator.telemetry import Telemetry


def crd(version: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {SCHEMA_ANNOTATION: version} if version else None}}


class Server:
    """Answers with a CRD, or fails."""

    def __init__(self) -> None:
        self.crd: dict[str, Any] | None = crd(str(SCHEMA_VERSION))
        self.error = 0

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        assert (kind, namespace, name) == ("CustomResourceDefinition", "", "sloserves.sloserve.dev")
        if self.error:
            raise KubeError("read", self.error, "no")
        return self.crd


def test_a_crd_without_the_annotation_is_of_the_release_before_there_was_one() -> None:
    assert version_of(crd(None)) == 1
    assert version_of(crd("12")) == 12
    assert version_of(crd("two")) == version_of(crd("-1")) == version_of(crd("²")) == 0


def test_the_same_version_is_nothing_to_speak_of_and_another_says_what_to_do() -> None:
    assert compare(5, own=5) == ""
    assert "drops fields" in compare(4, own=5)
    assert "Upgrade the CRD" in compare(4, own=5)
    assert "not acted on. Upgrade the operator" in compare(6, own=5)
    assert "no number in sloserve.dev/schema-version" in compare(0, own=5)


async def test_the_metric_and_the_verdict_follow_the_crd() -> None:
    server, telemetry = Server(), Telemetry()
    kube: Any = server
    skew = Skew(kube, telemetry)

    async def seen() -> tuple[float | None, bool]:
        await skew.check()
        return telemetry.registry.get_sample_value("sloserve_schema_skew"), bool(skew.verdict)

    assert await seen() == (0, False)
    server.crd = crd(str(SCHEMA_VERSION + 2))
    assert await seen() == (2, True)
    server.error = 503
    assert await seen() == (2, True), "no answer is no news"
    server.error, server.crd = 0, None
    assert await seen() == (2, True), "nor is a CRD that is gone: the watches tell of it"
    server.error, server.crd = 0, crd(None)
    assert await seen() == (1 - SCHEMA_VERSION, True)
    server.crd = crd(str(SCHEMA_VERSION))
    assert await seen() == (0, False)


async def test_without_the_right_to_read_it_says_that_it_cannot_know() -> None:
    server, telemetry = Server(), Telemetry()
    kube: Any = server
    server.error = 403
    skew = Skew(kube, telemetry)
    await skew.check()
    assert "may not read CRDs" in skew.verdict
    assert telemetry.registry.get_sample_value("sloserve_schema_skew") == 0


@pytest.mark.parametrize(
    ("version", "event"), [("1", "CRD older than operator"), ("99", "CRD newer than operator")]
)
async def test_each_change_is_one_line_in_the_log(version: str, event: str) -> None:
    server = Server()
    kube: Any = server
    skew = Skew(kube, Telemetry())
    with structlog.testing.capture_logs() as lines:
        for given in (version, version, version, str(SCHEMA_VERSION), str(SCHEMA_VERSION)):
            server.crd = crd(given)
            await skew.check()
    assert [line["event"] for line in lines] == [event, "CRD and operator have one schema version"]
    assert [line["log_level"] for line in lines] == ["warning", "info"]
