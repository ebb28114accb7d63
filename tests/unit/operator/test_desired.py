"""What a spec becomes: golden files, and the properties that no golden file can state."""

import dataclasses
import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sloserve_operator.api.resource import SLOServe
from sloserve_operator.api.spec import SLOServeSpec
from sloserve_operator.desired import Context, build, pod, restart
from sloserve_operator.desired.config import KEY
from sloserve_operator.desired.names import ENGINE_IMAGE, RESTART_HASH, TEMPLATE_HASH, TEMPLATE_VERSION
from sloserve_operator.desired.pod import Version

from tests import desired
from tests.unit.operator.objects import resource

CONTEXT = Context("engine:1.0", "engine-cpu:1.0")


def child(kind: str, of: SLOServe, context: Context = CONTEXT) -> dict[str, Any]:
    return next(obj for obj in build(of, context) if obj["kind"] == kind)


def template(of: SLOServe, context: Context = CONTEXT) -> dict[str, Any]:
    return dict(child("Deployment", of, context)["spec"]["template"])


def test_children_and_pod_templates_are_those_of_their_golden_files() -> None:
    files = desired.generated_files()
    assert [name for name, text in files.items() if (desired.ROOT / name).read_text() != text] == []
    kept = {
        str(path.relative_to(desired.ROOT)) for path in (desired.ROOT / desired.DATA).glob("[ot]*/**/*.yaml")
    }
    assert kept == set(files), "a golden file without an input"


def test_a_pod_template_that_would_restart_engines_on_an_upgrade_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod, "READINESS_PROBE_SECONDS", 6)
    with pytest.raises(desired.ChangedTemplateError, match="running engines would restart"):
        desired.generated_files()


def test_same_input_gives_the_same_bytes() -> None:
    assert json.dumps(build(resource(), CONTEXT)) == json.dumps(build(resource(), CONTEXT))


@pytest.mark.parametrize(
    "change",
    [
        {"scheduler": {"alpha": 0.3}},
        {"defaultClass": "batch"},
        {"sloClasses": [{"name": "dialogue", "ttft": {"slowdown": 9}, "tbtMilliseconds": 1}]},
        {"replicas": 5},
    ],
)
def test_a_hot_setting_or_a_scale_leaves_the_pod_template_alone(change: dict[str, Any]) -> None:
    assert template(resource(**change)) == template(resource())


@pytest.mark.parametrize(
    "change", [{"model": {"uri": "hf://org/other"}}, {"engine": {"tensorParallelSize": 1}}]
)
def test_a_cold_setting_changes_the_pod_template_and_not_the_settings(change: dict[str, Any]) -> None:
    assert template(resource(**change)) != template(resource())
    assert child("ConfigMap", resource(**change))["data"] == child("ConfigMap", resource())["data"]


def test_the_default_image_stays_pinned_until_a_restart_field_changes() -> None:
    first = child("Deployment", resource())
    newer = Context("engine:2.0", "engine-cpu:2.0", deployment=first)
    assert template(resource(), newer) == first["spec"]["template"]
    restarted = child("Deployment", resource(model={"uri": "hf://org/other"}), newer)
    assert restarted["metadata"]["annotations"][ENGINE_IMAGE] == "engine:2.0"
    assert (
        restarted["metadata"]["annotations"][RESTART_HASH] != first["metadata"]["annotations"][RESTART_HASH]
    )


OWN_SIDECAR = {"spec": {"containers": [{"name": "side", "image": "x"}]}}
RESPELT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an empty podTemplate": ({}, {"podTemplate": {}}),
    "an empty podTemplate.spec": ({}, {"podTemplate": {"spec": {}, "metadata": {"labels": {}}}}),
    "main without a change": ({}, {"podTemplate": {"spec": {"containers": [{"name": "main"}]}}}),
    "main with empty lists": ({}, {"podTemplate": {"spec": {"containers": [{"name": "main", "env": []}]}}}),
    "a null for what is not there": ({}, {"podTemplate": {"spec": {"nodeName": None, "hostPID": False}}}),
    "an empty part beside a sidecar": (
        {"podTemplate": OWN_SIDECAR},
        {"podTemplate": {"metadata": {}, "spec": {**OWN_SIDECAR["spec"], "nodeSelector": {}}}},
    ),
    "a quantity in other units": (
        {"podTemplate": {"spec": {"volumes": [{"name": "x", "emptyDir": {"sizeLimit": "1Gi"}}]}}},
        {"podTemplate": {"spec": {"volumes": [{"name": "x", "emptyDir": {"sizeLimit": "1024Mi"}}]}}},
    ),
    "empty resources": ({}, {"engine": {"tensorParallelSize": 2, "resources": {"limits": {}}}}),
    "an empty nodeSelector": ({}, {"engine": {"tensorParallelSize": 2, "nodeSelector": {}}}),
    "defaults in so many words": ({}, {"engine": {"tensorParallelSize": 2, "runAs": "fixed", "env": []}}),
    "the image that it has": ({}, {"engine": {"tensorParallelSize": 2, "image": "engine:1.0"}}),
    "the model's name that it has": ({}, {"model": {"uri": "hf://org/model", "name": "org/model"}}),
}


@pytest.mark.parametrize("name", RESPELT)
def test_another_spelling_of_the_same_pod_restarts_nothing_even_after_an_upgrade(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = (resource(**fields) for fields in RESPELT[name])
    first = child("Deployment", before)
    monkeypatch.setitem(pod.VERSIONS, 99, Version(lambda _: {"exec": {"command": ["other"]}}, 30, {}))
    upgraded = Context("engine:2.0", "engine-cpu:2.0", deployment=first)
    again = child("Deployment", after, upgraded)
    for kept in (RESTART_HASH, TEMPLATE_VERSION, ENGINE_IMAGE, TEMPLATE_HASH):
        assert again["metadata"]["annotations"][kept] == first["metadata"]["annotations"][kept]
    assert restart.template_hash(again["spec"]["template"]) == restart.template_hash(
        first["spec"]["template"]
    )
    settled = child("Deployment", after, Context("engine:2.0", "c", deployment=again))
    assert settled == again


def test_selectors_that_are_empty_and_absent_are_two_pods() -> None:
    def spread(selector: dict[str, Any]) -> str:
        rule = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **selector}
        of = resource(podTemplate={"spec": {"topologySpreadConstraints": [rule]}})
        return restart.template_hash(template(of))

    assert spread({"labelSelector": {}}) != spread({})


def on(version: int, **fields: Any) -> Context:
    """After a pod template of that version was written, with pods that run."""
    first = child("Deployment", resource(**fields))
    first["metadata"]["annotations"] |= {TEMPLATE_VERSION: str(version)}
    first["spec"]["template"] = pod.template(resource(**fields), "engine:1.0", version)
    first["metadata"]["annotations"][TEMPLATE_HASH] = restart.template_hash(first["spec"]["template"])
    return Context("engine:1.0", "engine-cpu:1.0", deployment={**first, "status": {"replicas": 1}})


def test_engines_of_today_are_not_tied_to_ipv4_and_those_that_run_keep_their_word() -> None:
    def hosts(context: Context) -> list[str]:
        args = template(resource(), context)["spec"]["containers"][0]["args"]
        return [word for word in args if word.startswith("--host")]

    assert hosts(CONTEXT) == []
    assert hosts(on(2)) == ["--host=0.0.0.0"]


def test_a_service_is_of_both_families_only_when_its_engines_listen_on_both() -> None:
    """Else clients that try IPv6 first would be refused by pods that still serve."""

    def policy(context: Context, **fields: Any) -> Any:
        return child("Service", resource(**fields), context)["spec"].get("ipFamilyPolicy")

    assert policy(CONTEXT) == "PreferDualStack"
    assert policy(on(2)) is None
    assert policy(CONTEXT, service={"ipFamilyPolicy": "SingleStack"}) == "SingleStack"


IDS = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}


def ids(of: SLOServe, context: Context = CONTEXT) -> dict[str, Any]:
    security = template(of, context)["spec"]["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    return {key: value for key, value in security.items() if key in IDS}


@pytest.mark.parametrize(
    ("own", "operators", "wanted"),
    [
        pytest.param(None, "fixed", IDS, id="by default fixed"),
        pytest.param("cluster", "fixed", {}, id="the resource leaves them to the cluster"),
        pytest.param(None, "cluster", {}, id="the operator leaves them to the cluster"),
        pytest.param("fixed", "cluster", IDS, id="the resource's own word wins"),
    ],
)
def test_users_are_left_to_the_cluster_where_it_gives_them(
    own: str | None, operators: str, wanted: dict[str, int]
) -> None:
    of = resource(engine={"runAs": own} if own else {})
    assert ids(of, Context("e", "c", run_as=operators)) == wanted


def test_a_new_default_user_waits_for_a_restart_of_pods_that_run_not_of_those_refused() -> None:
    running = on(pod.current())
    assert ids(resource(), replace(running, run_as="cluster")) == IDS
    assert running.deployment
    refused = replace(running, deployment={**running.deployment, "status": {}}, run_as="cluster")
    assert ids(resource(), refused) == {}


NULLS = {"securityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}
DROPPED: dict[str, Any] = {"securityContext": {}}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_nulls_for_the_user_leave_it_to_the_cluster_also_where_a_merge_patch_has_dropped_them(
    version: int,
) -> None:
    """They reach the server when an object is made with them, and are dropped from one that is there."""
    made, patched = (resource(podTemplate={"spec": spec}) for spec in (NULLS, DROPPED))
    assert ids(made) == ids(patched) == {}
    assert ids(patched, on(version)) == {}, "added to engines that run: a restart"
    unchanged = on(version, podTemplate={"spec": DROPPED})
    assert ids(patched, unchanged) == (IDS if version < 3 else {}), "an upgrade rolls no engine"


def test_the_directive_leaves_the_user_to_the_cluster() -> None:
    replaced = {"$patch": "replace", "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert ids(resource(podTemplate={"spec": {"securityContext": replaced}})) == {}


CLAIMS = [{"name": "gpus", "resourceClaimTemplateName": "two-gpus", "count": 2}]


@pytest.mark.parametrize(
    "engine",
    [
        {"tensorParallelSize": 2, "resourceClaims": CLAIMS},
        {"tensorParallelSize": 2, "resourceClaims": CLAIMS, "accelerator": "claims"},
    ],
)
@pytest.mark.parametrize(
    "patch",
    [
        None,
        {"containers": [{"name": "main", "resources": {"claims": [{"name": "nic"}]}}]},
        {"containers": [{"name": "main", "resources": None}], "resourceClaims": [{"$patch": "replace"}]},
    ],
)
def test_accelerators_by_claims_have_no_count_beside_them_and_no_pod_template_takes_them_away(
    engine: dict[str, Any], patch: dict[str, Any] | None
) -> None:
    of = resource(engine=engine, podTemplate={"spec": patch} if patch else None)
    spec = template(of)["spec"]
    (main,) = spec["containers"]
    assert {"name": "gpus", "resourceClaimTemplateName": "two-gpus"} in spec["resourceClaims"]
    assert {"name": "gpus"} in main["resources"]["claims"]
    assert "limits" not in main["resources"]
    assert "/dev/shm" in [mount["mountPath"] for mount in main["volumeMounts"]]


def test_claims_of_a_pod_template_alone_are_enough_with_accelerator_claims() -> None:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}]
    main = {"name": "main", "resources": {"claims": [{"name": "gpus"}]}}
    spec = template(
        resource(
            engine={"tensorParallelSize": 2, "accelerator": "claims"},
            podTemplate={"spec": {"resourceClaims": claims, "containers": [main]}},
        )
    )["spec"]
    assert spec["resourceClaims"] == claims
    assert spec["containers"][0]["resources"] == main["resources"]


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> int:
    """An operator with one more template version."""
    version = pod.current() + 1
    monkeypatch.setitem(pod.VERSIONS, version, Version(lambda _: {"exec": {"command": ["other"]}}, 30, {}))
    return version


def test_a_newer_template_version_waits_for_a_restart(newer: int) -> None:
    first = child("Deployment", resource())
    first["metadata"]["annotations"][TEMPLATE_VERSION] = "1"
    first["spec"]["template"] = pod.template(resource(), "engine:1.0", 1)
    upgraded = Context("engine:2.0", "engine-cpu:2.0", deployment=first)
    assert template(resource(), upgraded) == first["spec"]["template"]
    hot = resource(scheduler={"alpha": 0.2}, replicas=7)
    assert template(hot, upgraded) == first["spec"]["template"]
    restarted = child("Deployment", resource(model={"uri": "hf://org/other"}), upgraded)
    assert restarted["metadata"]["annotations"][TEMPLATE_VERSION] == str(newer)
    assert "other" in json.dumps(restarted["spec"]["template"]["spec"]["containers"][0]["lifecycle"])


@pytest.mark.parametrize("version", ["99", "0", "-1", "x", ""])
def test_a_version_that_this_operator_does_not_know_gives_its_own(newer: int, version: str) -> None:
    first = child("Deployment", resource())
    first["metadata"]["annotations"][TEMPLATE_VERSION] = version
    again = child("Deployment", resource(), Context("e", "c", deployment=first))
    assert again["metadata"]["annotations"][TEMPLATE_VERSION] == str(newer)


@pytest.mark.parametrize("name", desired.inputs())
def test_a_deployment_that_is_made_anew_is_of_the_newest_version(name: str) -> None:
    made = child("Deployment", desired.inputs()[name])
    assert made["metadata"]["annotations"][TEMPLATE_VERSION] == str(pod.current())


def test_a_deployment_without_a_version_is_of_the_first_one(newer: int) -> None:
    first = child("Deployment", resource())
    del first["metadata"]["annotations"][TEMPLATE_VERSION]
    again = child("Deployment", resource(), Context("e", "c", deployment=first))
    assert again["metadata"]["annotations"][TEMPLATE_VERSION] == "1"


@pytest.mark.parametrize("field", ["podTemplate", "storage"])
def test_what_the_first_operator_did_not_know_is_a_restart_for_its_deployments(
    field: str, newer: int
) -> None:
    """Its hash was over model and engine alone, so it cannot vouch for the rest."""
    first = child("Deployment", resource())
    first["metadata"]["annotations"][RESTART_HASH] = str(restart._first_hash(resource().spec))
    del first["metadata"]["annotations"][TEMPLATE_VERSION]
    context = Context("e", "c", deployment=first)
    assert child("Deployment", resource(), context)["metadata"]["annotations"][TEMPLATE_VERSION] == "1"
    more: dict[str, Any] = {
        "podTemplate": {"spec": {"hostNetwork": True}},
        "storage": {"modelCache": {"existingClaim": "hub"}},
    }
    changed = child("Deployment", resource(**{field: more[field]}), context)
    assert changed["metadata"]["annotations"][TEMPLATE_VERSION] == str(newer)


def test_the_grace_period_covers_pre_stop_and_drain_and_the_deadline_covers_all() -> None:
    of = resource(engine={"drainTimeoutSeconds": 300, "startupTimeoutSeconds": 900})
    spec = child("Deployment", of)["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    command = shlex.split(container["lifecycle"]["preStop"]["exec"]["command"][2])
    assert command[:2] == ["slidingserve", "drain"]
    options = dict(word.split("=") for word in command[2:5])
    assert f"--state-dir={options['--state-dir']}" in container["args"]
    assert int(options["--wait"]) >= 6, "clients keep a connection for 5 s without a request"
    assert int(options["--timeout"]) == 300
    assert "--shutdown-timeout=300" in container["args"], "streams end also where the hook could not run"
    assert pod["terminationGracePeriodSeconds"] >= int(options["--wait"]) + 300 + 10
    assert spec["progressDeadlineSeconds"] > pod["terminationGracePeriodSeconds"] + 900
    probe = pod["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 900
    for kind in ("startupProbe", "livenessProbe"):
        grace = pod["containers"][0][kind]["terminationGracePeriodSeconds"]
        assert grace < 30, "what a probe gave up is not waited for"


@pytest.mark.parametrize(
    ("status", "slept"),
    [
        pytest.param(0, False, id="drained"),
        pytest.param(1, False, id="requests-are-open"),
        pytest.param(2, True, id="an-older-image-without-the-command"),
        pytest.param(127, True, id="no-such-program"),
    ],
)
def test_an_engine_that_cannot_drain_sleeps_before_it_is_stopped(
    status: int, slept: bool, tmp_path: Path
) -> None:
    """The hook as the container runs it, with stand-ins for the two programs that it calls."""
    command = child("Deployment", resource())["spec"]["template"]["spec"]["containers"][0]["lifecycle"][
        "preStop"
    ]["exec"]["command"]
    for name, script in (("slidingserve", f"exit {status}"), ("sleep", f"echo $1 > {tmp_path}/slept")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/bin"}, check=False)
    assert done.returncode == status, "the kubelet's event tells it"
    assert (tmp_path / "slept").exists() == slept


def test_the_cpu_build_gets_shared_memory_even_for_one_rank() -> None:
    pod = template(resource(engine={"accelerator": "cpu"}))["spec"]
    assert "/dev/shm" in [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]


@pytest.mark.parametrize(("ranks", "mounted"), [(1, False), (2, True)])
def test_gpu_engines_get_shared_memory_only_for_several_ranks(ranks: int, mounted: bool) -> None:
    pod = template(resource(engine={"tensorParallelSize": ranks}))["spec"]
    assert ("/dev/shm" in [m["mountPath"] for m in pod["containers"][0]["volumeMounts"]]) is mounted
    assert (
        {"medium": "Memory", "sizeLimit": "2Gi"} in [v.get("emptyDir") for v in pod["volumes"]]
    ) is mounted
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": str(ranks)}


def test_the_users_environment_wins_over_ours_and_names_stay_unique() -> None:
    container = template(resource(engine={"env": [{"name": "HOME", "value": "/x"}]}))["spec"]["containers"][0]
    homes = [variable for variable in container["env"] if variable["name"] == "HOME"]
    assert homes == [{"name": "HOME", "value": "/x"}]


def test_no_volume_mounts_the_settings_as_a_single_file() -> None:
    container = template(resource())["spec"]["containers"][0]
    assert not [mount for mount in container["volumeMounts"] if "subPath" in mount]


def test_the_settings_name_the_default_class_even_if_the_user_does_not() -> None:
    of = resource(defaultClass=None)
    assert json.loads(child("ConfigMap", of)["data"][KEY])["defaultClass"] == "dialogue"


def kinds(of: SLOServe) -> list[str]:
    return [obj["kind"] for obj in build(of, CONTEXT)]


def test_policies_and_claims_exist_only_where_they_are_asked_for() -> None:
    plain = ["ServiceAccount", "ConfigMap", "Service", "PodDisruptionBudget", "Deployment"]
    assert kinds(resource()) == plain
    assert kinds(resource(disruptionBudget={"enabled": False})) == [k for k in plain if k[:3] != "Pod"]
    assert "NetworkPolicy" in kinds(resource(networkPolicy={"enabled": True}))
    assert "PersistentVolumeClaim" in kinds(resource(storage={"modelCache": {"size": "1Gi"}}))
    assert "PersistentVolumeClaim" not in kinds(resource(storage={"modelCache": {"existingClaim": "hub"}}))


def test_the_operator_reaches_the_state_port_whoever_else_may() -> None:
    of = resource(networkPolicy={"enabled": True, "allowFrom": []})
    (rule,) = child("NetworkPolicy", of)["spec"]["ingress"]
    (peer,) = rule["from"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"
    ports = template(of)["spec"]["containers"][0]["ports"]
    assert [port["port"] for port in rule["ports"]] == [port["containerPort"] for port in ports]


def test_every_policy_selects_the_pods_of_the_deployment() -> None:
    of = resource(networkPolicy={"enabled": True})
    labels = template(of)["metadata"]["labels"]
    selectors = [
        child("PodDisruptionBudget", of)["spec"]["selector"]["matchLabels"],
        child("NetworkPolicy", of)["spec"]["podSelector"]["matchLabels"],
        child("Service", of)["spec"]["selector"],
        child("Deployment", of)["spec"]["selector"]["matchLabels"],
    ]
    assert all(selector and selector.items() <= labels.items() for selector in selectors)


def test_adapters_are_found_wherever_they_are() -> None:
    of = desired.inputs()["storage.yaml"]
    container = template(of)["spec"]["containers"][0]
    at = container["args"].index("--lora-modules")
    assert container["args"][at + 1 : at + 5] == [
        "hub=org/adapter",
        "beside=/models/claim/adapters/one",
        "elsewhere=/models/adapters/0/two",
        "built-in=/adapters/three",
    ]
    volumes = {volume["name"]: volume for volume in template(of)["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert mounts["/models/claim"]["persistentVolumeClaim"]["claimName"] == "weights"
    assert mounts["/models/adapters/0"]["persistentVolumeClaim"]["claimName"] == "team-adapters"
    assert mounts["/var/cache/slidingserve/huggingface"]["persistentVolumeClaim"]["claimName"] == (
        "cached-model-cache"
    )


def test_accelerators_are_tensor_times_pipeline_parallel() -> None:
    of = resource(
        engine={"tensorParallelSize": 2, "pipelineParallelSize": 3, "accelerator": "nvidia.com/mig-1g.10gb"}
    )
    container = template(of)["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/mig-1g.10gb": "6"}
    assert {"--tensor-parallel-size=2", "--pipeline-parallel-size=3"} <= set(container["args"])


def test_an_env_of_the_user_wins_over_a_secret_of_ours() -> None:
    env = [{"name": "HF_TOKEN", "value": "mine"}, {"name": "VLLM_API_KEY", "value": "mine"}]
    of = resource(
        model={"uri": "hf://org/model", "tokenSecretRef": {"name": "hub"}},
        engine={"env": env, "apiKeySecretRef": {"name": "keys"}},
    )
    found = [
        v for v in template(of)["spec"]["containers"][0]["env"] if v["name"] in ("HF_TOKEN", "VLLM_API_KEY")
    ]
    assert found == env


def test_a_names_own_labels_and_annotations_are_not_the_users_to_take() -> None:
    of = resource(
        service={"labels": {"sloserve.dev/name": "x"}, "annotations": {"sloserve.dev/applied-hash": "x"}}
    )
    metadata = child("Service", of)["metadata"]
    assert metadata["labels"]["sloserve.dev/name"] == "chat"
    assert metadata["annotations"]["sloserve.dev/applied-hash"] != "x"


@pytest.mark.parametrize("name", desired.inputs())
def test_an_object_that_was_stored_with_its_defaults_filled_in_makes_the_same_children(name: str) -> None:
    """A CRD that filled them in and one that does not give the same pods, settings and hashes."""
    left_out = desired.inputs()[name]
    spec = left_out.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    filled_in = dataclasses.replace(left_out, spec=SLOServeSpec.model_validate(spec))
    assert all("objectivePercent" in entry for entry in spec["sloClasses"])
    assert build(filled_in, CONTEXT) == build(left_out, CONTEXT)
    assert restart.restart_hash(filled_in.spec) == restart.restart_hash(left_out.spec)
