"""The claim that is made for downloaded weights: an edit never deletes it, and how to keep it for good."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

CLAIM = "chat-model-cache"


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
    """As docs/operations.md says it."""
    space.apply(cached(size="1Gi"))
    space.reason("chat", "ScaledToZero")
    before = space.must("deployment", "chat")["metadata"]["generation"]
    space.apply(cached(existingClaim=CLAIM))
    seen = space.must("sloserve", "chat")["metadata"]["generation"]
    until(lambda: space.must("sloserve", "chat")["status"].get("observedGeneration") == seen, "a look")
    template = space.must("deployment", "chat")["spec"]["template"]
    patch = '[{"op": "remove", "path": "/metadata/ownerReferences"}]'
    space.run("patch", "pvc", CLAIM, "--type=json", "-p", patch)
    space.apply(cached(existingClaim=CLAIM))
    assert space.must("deployment", "chat")["spec"]["template"] == template, "no restart"
    assert space.must("deployment", "chat")["metadata"]["generation"] <= before + 1
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
