"""When a live object counts as what we asked for."""

from typing import Any

import pytest
from sloserve_operator.desired.drift import drift
from sloserve_operator.desired.quantities import quantity

CONTAINER = {"name": "main", "image": "a", "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}}


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 1, "defaulted": True}),
        ({"l": [{"name": "x", "v": 1}]}, {"l": [{"name": "injected"}, {"name": "x", "v": 1, "w": 2}]}),
        (
            {"c": [CONTAINER]},
            {"c": [{**CONTAINER, "resources": {"limits": {"cpu": "1", "memory": "1024Mi"}}}]},
        ),
        ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"volumeMounts": [{"mountPath": "/a", "readOnly": False}]}, {"volumeMounts": [{"mountPath": "/a"}]}),
        ({"probe": {"initialDelaySeconds": 0}}, {"probe": {}}),
        (
            {"ports": [{"name": "http", "containerPort": 1}, {"containerPort": 2}]},
            {"ports": [{"name": "http", "containerPort": 1}, {"containerPort": 2, "protocol": "TCP"}]},
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
        ),
        ({"args": []}, {}),
        ({"podSelector": {"matchLabels": {}}}, {"podSelector": {}}),
        (
            {"ingress": [{"from": [{"ipBlock": {"cidr": "::/0", "except": []}}]}]},
            {"ingress": [{"from": [{"ipBlock": {"cidr": "::/0"}}]}]},
        ),
    ],
)
def test_defaults_and_other_managers_fields_are_no_drift(desired: Any, live: Any) -> None:
    assert drift(desired, live) is None


@pytest.mark.parametrize(
    ("desired", "live", "where"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b"),
        ({"a": {"b": 1}}, {}, "a"),
        ({"token": False}, {}, "token"),
        ({"args": ["x", "y"]}, {"args": ["y", "x"]}, "args[0]"),
        ({"args": ["x"]}, {"args": ["x", "y"]}, "args"),
        ({"c": [CONTAINER]}, {"c": [{**CONTAINER, "image": "b"}]}, "c[main].image"),
        ({"c": [CONTAINER]}, {"c": []}, "c[main]"),
        ({"c": [CONTAINER, {"image": "x"}]}, {"c": [CONTAINER]}, "c"),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, "limits"),
        ({"data": {"k": "new"}}, {"data": {"k": "old"}}, "data.k"),
        ({"podSelector": {}}, {"podSelector": {"matchLabels": {"a": "b"}}}, "podSelector"),
        ({"selector": {"a": "b"}}, {"selector": {"a": "b", "c": "d"}}, "selector"),
        (
            {"ingress": [{"from": [{"podSelector": {}}]}]},
            {"ingress": [{"from": [{"namespaceSelector": {}}]}]},
            "ingress",
        ),
        (
            {"ingress": [{"ports": [{"port": 1}]}]},
            {"ingress": [{"ports": [{"port": 1, "endPort": 9}]}]},
            "ingress",
        ),
    ],
)
def test_a_changed_or_missing_field_is_named(desired: Any, live: Any, where: str) -> None:
    found = drift(desired, live)
    assert found is not None
    assert found.startswith(where)


@pytest.mark.parametrize(
    ("text", "value"), [("1000m", 1), ("1Gi", 2**30), (2, 2), ("2k", 2000), ("1e3", 1000), ("0.5", 0.5)]
)
def test_quantities_are_compared_by_value(text: Any, value: float) -> None:
    assert float(quantity(text) or 0) == value


def test_what_is_no_quantity_has_no_value() -> None:
    assert quantity("many") is None
    assert quantity("") is None
    assert quantity("1e999999999") is None
