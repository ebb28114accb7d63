"""What podTemplate can change in the engine's pod, and what it cannot."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sloserve_operator.api.resource import SLOServe
from sloserve_operator.desired import pod
from sloserve_operator.desired.merge import strategic

from tests.unit.operator.objects import resource


def merged(spec: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **changes: Any) -> Any:
    given = {"spec": spec or {}, "metadata": metadata or {}}
    return pod.template(resource(podTemplate=given, **changes), "engine:1", 1)


def own(of: SLOServe | None = None) -> Any:
    return pod.own_template(of or resource(), "engine:1", 1)


def main(template: Any) -> Any:
    (found,) = [c for c in template["spec"]["containers"] if c["name"] == "main"]
    return found


def test_an_empty_pod_template_changes_nothing() -> None:
    assert merged() == own()


ATTACKS: list[dict[str, Any]] = [
    {"containers": [{"name": "main", "$patch": "delete"}]},
    {"containers": [{"name": "any", "$patch": "replace"}, {"name": "side", "image": "x"}]},
    {"containers": None},
    {"containers": [{"name": "main", "$patch": "delete"}], "volumes": [{"$patch": "replace"}]},
    {"$patch": "delete"},
    {"$patch": "replace"},
    {"volumes": [{"name": "config", "emptyDir": {}}]},
    {"terminationGracePeriodSeconds": 1},
    {"containers": [{"name": "main", "image": "evil", "command": ["x"], "args": []}]},
    {
        "containers": [
            {"name": "main", "lifecycle": None, "readinessProbe": None, "startupProbe": {"exec": {}}}
        ]
    },
    {"containers": [{"name": "main", "ports": [{"containerPort": 8000, "name": "other"}]}]},
    {"containers": [{"name": "main", "volumeMounts": [{"mountPath": "/etc/slidingserve", "name": "tmp"}]}]},
    {"containers": [{"name": "main", "volumeMounts": [{"$patch": "replace"}]}]},
    {"containers": [{"name": "main", "resources": {"$patch": "delete"}}]},
    {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}]},
    {"containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": 8}}}]},
]


@pytest.mark.parametrize("spec", ATTACKS, ids=str)
def test_what_the_system_relies_on_survives_every_pod_template(spec: dict[str, Any]) -> None:
    got, ours = merged(spec), own()
    container, held = main(got), main(ours)
    assert {key: container[key] for key in pod.HELD} == {key: held[key] for key in pod.HELD}
    assert held["ports"][0] in container["ports"]
    assert held["volumeMounts"][0] in container["volumeMounts"]
    assert ours["spec"]["volumes"][0] in got["spec"]["volumes"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert "nvidia.com/gpu" not in container["resources"].get("requests", {})
    grace = "terminationGracePeriodSeconds"
    assert got["spec"][grace] == ours["spec"][grace]
    for key in ("ports", "volumeMounts", "env"):
        items = container.get(key, [])
        field = {"ports": "containerPort", "volumeMounts": "mountPath", "env": "name"}[key]
        assert len({item[field] for item in items}) == len(items)


@pytest.mark.parametrize("labels", [{"sloserve.dev/name": "other"}, {"$patch": "delete"}, None])
def test_the_labels_that_the_selector_and_the_operator_go_by_survive(labels: Any) -> None:
    ours = own()["metadata"]["labels"]
    got = merged(metadata={"labels": labels})["metadata"]["labels"]
    assert {key: got[key] for key in ours} == ours


def test_a_directive_that_does_not_exist_stays_for_the_api_server_to_refuse() -> None:
    side = {"name": "side", "image": "x", "$patch": "remove"}
    assert side in merged({"containers": [side]})["spec"]["containers"]
    assert strategic({"a": {"b": 1}}, {"a": {"$patch": "remove"}}) == {"a": {"b": 1, "$patch": "remove"}}


def test_further_labels_annotations_sidecars_and_volumes_arrive() -> None:
    got = merged(
        {
            "containers": [
                {"name": "side", "image": "x"},
                {"name": "main", "env": [{"name": "A", "value": "1"}]},
            ],
            "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "9Gi"}}],
            "securityContext": {"runAsUser": 7},
        },
        {"labels": {"team": "llm"}, "annotations": {"note": "x"}},
    )
    assert got["metadata"]["labels"]["team"] == "llm"
    assert got["metadata"]["annotations"] == {"note": "x"}
    assert [c["name"] for c in got["spec"]["containers"]] == ["side", "main"]
    assert {"name": "A", "value": "1"} in main(got)["env"]
    assert {"name": "cache", "emptyDir": {"sizeLimit": "9Gi"}} in got["spec"]["volumes"]
    assert got["spec"]["securityContext"]["runAsUser"] == 7
    assert got["spec"]["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    ("base", "patch", "result"),
    [
        ({"a": 1}, {"b": None}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": {"b": None}}, {"a": {}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"env": [{"name": "a"}]}, {"env": [{"name": "b"}]}, {"env": [{"name": "b"}, {"name": "a"}]}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
    ],
)
def test_a_patch_is_merged_strategically(base: Any, patch: Any, result: Any) -> None:
    assert strategic(base, patch) == result


WORDS = st.sampled_from(
    [
        "name",
        "main",
        "volumes",
        "env",
        "ports",
        "containerPort",
        "resources",
        "limits",
        "$patch",
        "delete",
        "replace",
    ]
)
ANYTHING: Any = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(
    spec=st.dictionaries(WORDS, ANYTHING, max_size=4),
    main_fields=st.dictionaries(WORDS, ANYTHING, max_size=4),
)
def test_no_nonsense_in_a_pod_template_stops_the_operator(spec: dict[str, Any], main_fields: Any) -> None:
    """The API server keeps what it does not know; it refuses the Deployment, in its own words."""
    got = merged({**spec, "containers": [{**main_fields, "name": "main"}]})
    assert main(got)["command"] == ["slidingserve", "serve", "org/model"]
    assert "containers" in got["spec"]
