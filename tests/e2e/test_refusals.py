"""A bad resource never gets in: the API server refuses it with a sentence that says what to do."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.demo.kube import Kube
from tests.e2e.conftest import EXAMPLE

pytestmark = pytest.mark.cluster


def changed(path: str, value: Any) -> dict[str, Any]:
    obj = copy.deepcopy(EXAMPLE)
    obj["metadata"] = {"name": "bad"}
    *parents, last = path.split(".")
    place = obj["spec"]
    for part in parents:
        place = place.setdefault(part, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return obj


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("engine.tensorParallelSize", 0, "engine.tensorParallelSize must be at least 1"),
        ("defaultClass", "absent", "defaultClass must be the name of one of sloClasses: add that class"),
        ("scheduler.alpha", "abc", "spec.scheduler.alpha"),
        ("model", None, "spec.model.uri is missing: say which model to serve"),
    ],
)
def test_a_bad_resource_is_refused_with_a_sentence(kube: Kube, path: str, value: Any, says: str) -> None:
    done = kube.try_run("apply", "-f", "-", stdin=json.dumps(changed(path, value)))
    assert done.returncode != 0
    assert says in done.stderr
    assert kube.get("sloserve", "bad") is None


def test_the_same_resource_without_the_fault_is_accepted(kube: Kube) -> None:
    good = changed("scheduler.alpha", 0.7)
    kube.run("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(good))
