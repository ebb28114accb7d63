"""The claim that is made for downloaded weights: an edit never deletes it, and how to keep it for good."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

CLAIM = "chat-model-cache"
DOCS = Path(__file__).parents[2] / "docs" / "operations.md"


def volumes(space: Space) -> list[str]:
    """Claims that the pods mount."""
    pod = space.must("deployment", "chat")["spec"]["template"]["spec"]
    found = [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod["volumes"]]
    return [name for name in found if name]


def cached(**cache: Any) -> dict[str, Any]:
    return manifest(storage={"modelCache": cache})


def test_taking_the_cache_out_of_the_spec_keeps_the_claim_and_the_resources_end_takes_it(
    space: Space, operator: Operator
) -> None:
    space.apply(cached(size="1Gi"))
    space.reason("chat", "ScaledToZero")
    uid = space.must("pvc", CLAIM)["metadata"]["uid"]
    assert volumes(space) == [CLAIM]
    space.patch("chat", {"storage": None})
    until(lambda: volumes(space) == [], "pods without the claim")
    space.apply(cached(size="1Gi"))
    until(lambda: volumes(space) == [CLAIM], "the claim in use again")
    assert space.must("pvc", CLAIM)["metadata"]["uid"] == uid
    space.run("delete", "sloserve", "chat", "--timeout=30s")
    until(lambda: space.get("pvc", CLAIM) is None, "the claim gone with its resource", 60)


def test_a_claim_that_was_made_can_be_kept_for_good(space: Space, operator: Operator) -> None:
    """By the two commands in docs/operations.md."""
    space.apply(cached(size="1Gi"))
    space.reason("chat", "ScaledToZero")
    template = space.must("deployment", "chat")["spec"]["template"]
    commands = re.findall(
        r"^kubectl (patch (?:sloserve chat .*existingClaim|pvc).*)$", DOCS.read_text(), re.M
    )
    assert len(commands) == 2
    for command in commands:
        space.run(*shlex.split(command))
        space.run("annotate", "--overwrite", "sloserve", "chat", f"after={command.split()[1]}")
        seen = space.must("sloserve", "chat")["metadata"]["generation"]
        until(lambda: space.must("sloserve", "chat")["status"]["observedGeneration"] == seen, "a look")  # noqa: B023
    assert space.must("deployment", "chat")["spec"]["template"] == template, "no restart"
    assert space.condition("chat", "Ready")["reason"] == "ScaledToZero"
    space.run("delete", "sloserve", "chat", "--timeout=30s")
    until(lambda: not space.get("deployment", "chat"), "the rest gone with its resource", 60)
    assert "deletionTimestamp" not in space.must("pvc", CLAIM)["metadata"]


def test_a_claim_that_the_server_refuses_keeps_engines_as_they_are(space: Space, operator: Operator) -> None:
    space.apply(manifest())
    space.reason("chat", "ScaledToZero")
    both = ["ReadWriteOnce", "ReadWriteOncePod"]
    space.patch("chat", {"storage": {"modelCache": {"size": "1Gi", "accessModes": both}}})
    condition = space.reason("chat", "ChildRefused", kind="SpecValid")
    assert "ReadWriteOncePod" in condition["message"]
    assert volumes(space) == [], "no engine is replaced by one that would wait for the claim"
    space.run("delete", "service", "chat")
    until(lambda: space.get("service", "chat"), "what is not at fault is kept in shape")


def test_a_claim_whose_new_size_is_refused_gets_no_engines_and_keeps_those_that_run(
    space: Space, operator: Operator
) -> None:
    space.apply(cached(size="1Gi"))
    space.reason("chat", "ScaledToZero")
    space.patch("chat", {"storage": None})
    until(lambda: volumes(space) == [], "pods without the claim")
    before = space.must("deployment", "chat")["spec"]
    space.patch("chat", {"storage": {"modelCache": {"size": "512Mi"}}})
    space.reason("chat", "ChildRefused", kind="SpecValid")
    assert space.must("deployment", "chat")["spec"] == before, "the older claim is not what was asked for"
    space.patch("chat", {"storage": {"modelCache": {"size": "1Gi"}}})
    until(lambda: volumes(space) == [CLAIM], "the claim in use again")
    space.reason("chat", "ScaledToZero")
