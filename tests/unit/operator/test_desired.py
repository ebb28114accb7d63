"""What a spec becomes: golden files, and the properties that no golden file can state."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from sloserve_operator.api.resource import SLOServe
from sloserve_operator.desired import Context, build
from sloserve_operator.desired.config import KEY
from sloserve_operator.desired.names import ENGINE_IMAGE, RESTART_HASH

from tests.unit.operator.objects import UID, resource

GOLDEN = Path(__file__).parent / "golden"
INPUTS = sorted(path.name for path in (GOLDEN / "input").iterdir())
CONTEXT = Context("engine:1.0", "engine-cpu:1.0")


class Plain(yaml.SafeDumper):
    """YAML without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def child(kind: str, of: SLOServe, context: Context = CONTEXT) -> dict[str, Any]:
    return next(obj for obj in build(of, context) if obj["kind"] == kind)


def template(of: SLOServe, context: Context = CONTEXT) -> dict[str, Any]:
    return dict(child("Deployment", of, context)["spec"]["template"])


@pytest.mark.parametrize("name", INPUTS)
def test_children_of_a_spec_are_those_of_its_golden_file(name: str) -> None:
    """A difference here restarts engines on an operator upgrade: it needs a reason, then UPDATE_GOLDEN=1."""
    obj = yaml.safe_load((GOLDEN / "input" / name).read_text())
    obj["metadata"] |= {"namespace": "models", "uid": UID, "generation": 7}
    text = yaml.dump_all(build(SLOServe.parse(obj), CONTEXT), Dumper=Plain, sort_keys=False, width=110)
    golden = GOLDEN / "output" / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(text)
    assert text == golden.read_text()


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


def test_the_grace_period_covers_pre_stop_and_drain_and_the_deadline_covers_all() -> None:
    of = resource(engine={"drainTimeoutSeconds": 300, "startupTimeoutSeconds": 900})
    spec = child("Deployment", of)["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:2] == ["slidingserve", "drain"]
    options = dict(word.split("=") for word in command[2:])
    assert f"--state-dir={options['--state-dir']}" in container["args"]
    assert int(options["--wait"]) >= 6, "clients keep a connection for 5 s without a request"
    assert int(options["--timeout"]) == 300
    assert "--shutdown-timeout=300" in container["args"], "streams end also where the hook could not run"
    assert pod["terminationGracePeriodSeconds"] >= int(options["--wait"]) + 300 + 10
    assert spec["progressDeadlineSeconds"] > pod["terminationGracePeriodSeconds"] + 900
    probe = pod["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 900


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
