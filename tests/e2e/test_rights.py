"""The installed operator's rights against the audit log of this whole run: none missing, none unused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.helm import documents
from tests.cluster.api import Cluster
from tests.contract.space import Space, until
from tests.contract.test_rights import do_everything
from tests.demo import install
from tests.e2e.audit import OPERATOR, Audit
from tests.e2e.conftest import Demo
from tests.rights import UNASKED, granted, requests

pytestmark = pytest.mark.cluster


def test_the_operator_asked_for_all_that_the_chart_grants_and_nothing_else(
    demo: Demo, cluster: Cluster, namespace: str, audit: Audit, tmp_path: Path
) -> None:
    chart = granted(documents({}, install.RELEASE, install.SYSTEM))
    demo.kube.patch(demo.name, {"scheduler": {"alpha": 0.61}})  # has the engine's pod nudged
    demo.kube.wait_condition(demo.name, "ConfigApplied", seconds=60)
    space = Space(cluster, namespace, tmp_path)
    do_everything(space)
    space.run("delete", "sloserves", "--all", "--timeout=60s")

    def asked() -> dict[str, int]:
        return dict(requests(audit.path, OPERATOR))

    assert sorted(asked().keys() - chart) == [], "asked for and not granted"
    assert [right for right, code in requests(audit.path, OPERATOR) if code == 403] == []
    until(lambda: asked().keys() >= chart - UNASKED, f"some of {sorted(chart)} are never asked for", 60)
