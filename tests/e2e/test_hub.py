"""Models that a hub refuses: a real engine in a pod, a stand-in of the hub in another, why in the status."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import stand_in_hub
from tests.demo.kube import Kube, Object, until
from tests.e2e.conftest import EXAMPLE

pytestmark = pytest.mark.cluster

HUB = "hub"
PORT = 8080
SCRIPT = "stand_in_hub.py"


def start_hub(kube: Kube, image: str) -> None:
    """The stand-in in a pod of its own, on the engine's image, which has a Python."""
    container = {
        "name": "hub",
        "image": image,
        "command": ["python3", f"/script/{SCRIPT}", str(PORT)],
        "volumeMounts": [{"name": "script", "mountPath": "/script"}],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "script", "configMap": {"name": HUB}}],
        "terminationGracePeriodSeconds": 1,
    }
    body: list[Object] = [
        {"kind": "ConfigMap", "data": {SCRIPT: Path(stand_in_hub.__file__).read_text()}},
        {"kind": "Secret", "stringData": {"token": stand_in_hub.GOOD_TOKEN}},
        {"kind": "Pod", "spec": pod},
        {"kind": "Service", "spec": {"selector": {"app": HUB}, "ports": [{"port": PORT}]}},
    ]
    for part in body:
        kube.apply({"apiVersion": "v1", "metadata": {"name": HUB, "labels": {"app": HUB}}, **part})


def test_a_model_that_the_hub_refuses_is_the_reason_with_what_to_do(kube: Kube, make: Any) -> None:
    """Both at once, since a start of the real engine takes its time: the hub is up long before they ask."""
    hub = f"http://{HUB}.{kube.namespace}.svc:{PORT}"
    env = [{"name": "HF_ENDPOINT", "value": hub}, {"name": "HF_HUB_OFFLINE", "value": "0"}]
    engine = {**EXAMPLE["spec"]["engine"], "env": env, "extraArgs": []}
    gated = make("gated", model={"uri": "hf://org/gated"}, engine=engine)
    absent = make(
        "absent",
        model={"uri": "hf://org/absent", "tokenSecretRef": {"name": HUB, "key": "token"}},
        engine=engine,
    )
    deployment = until(lambda: kube.get("deployment", gated), "its Deployment", 30)
    start_hub(kube, deployment["spec"]["template"]["spec"]["containers"][0]["image"])
    expected = {
        gated: (
            "TokenMissing",
            f"token missing: org/gated on {hub} is gated",
            "Set spec.model.tokenSecretRef",
        ),
        absent: ("ModelNotFound", f"{hub} shows no org/absent (404: ", "Correct spec.model.uri"),
    }
    for name, (reason, words, remedy) in expected.items():

        def look(name: str = name, reason: str = reason) -> Mapping[str, str] | None:
            found = kube.condition(name, "Ready")
            return found if found.get("reason") == reason else None

        message = until(look, f"{name}: {reason}", 300)["message"]
        assert words in message
        assert remedy in message
