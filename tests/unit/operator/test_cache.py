"""The cache: newest wins whatever the order, owners are found, deletions stay deleted."""

from typing import Any

from sloserve_operator.cache import Cache, owner_key

from tests.unit.operator.objects import manifest, pod, resource

KEY = ("default", "chat")


def at(version: int, obj: dict[str, Any] | None = None) -> dict[str, Any]:
    obj = obj or pod()
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


def test_an_older_event_does_not_overwrite_a_newer_write() -> None:
    cache = Cache()
    assert cache.put("Pod", at(9))
    assert not cache.put("Pod", at(8))
    assert not cache.put("Pod", at(9))
    assert cache.put("Pod", at(10))


def test_a_late_event_does_not_bring_a_deleted_object_back() -> None:
    cache = Cache()
    cache.put("Pod", at(9))
    cache.drop("Pod", at(12))
    assert not cache.put("Pod", at(10))
    assert cache.owned("Pod", KEY) == []


def test_an_object_that_left_the_watch_by_losing_its_label_can_be_read_again() -> None:
    cache = Cache()
    cache.put("Pod", at(9))
    cache.drop("Pod", at(12))
    assert cache.put("Pod", at(12))


def test_a_late_deletion_does_not_remove_the_next_object_of_that_name() -> None:
    cache = Cache()
    cache.put("Pod", at(20))
    cache.drop("Pod", at(12))
    assert len(cache.owned("Pod", KEY)) == 1


def test_owners_are_found_by_controller_and_pods_by_label() -> None:
    child = {"metadata": {"name": "x", "namespace": "default", "ownerReferences": [resource().reference()]}}
    assert owner_key("Service", child) == KEY
    assert owner_key("Pod", pod()) == KEY
    assert owner_key("SLOServe", manifest()) == KEY
    assert owner_key("Pod", {"metadata": {"name": "x", "namespace": "default"}}) is None


def test_a_pod_that_lost_its_label_is_no_longer_owned() -> None:
    cache = Cache()
    cache.put("Pod", at(1))
    bare = at(2)
    bare["metadata"]["labels"] = {}
    cache.put("Pod", bare)
    assert cache.owned("Pod", KEY) == []


def test_what_a_list_shows_and_no_watch_told_is_named() -> None:
    cache = Cache()
    cache.put("Pod", at(5))
    listed = [at(6), at(1, pod("other"))]
    assert dict(cache.lagging("Pod", listed)) == {("default", "chat-1"): 6, ("default", "other"): 1}
    assert [o["metadata"]["name"] for o in cache.vanished("Pod", [], 5)] == ["chat-1"]
    assert cache.vanished("Pod", [], 4) == []


def test_an_object_that_was_only_posted_is_marked_until_it_is_ours_by_apply() -> None:
    cache = Cache()
    fields = [{"manager": "sloserve-operator", "operation": "Update"}]
    posted = at(1)
    posted["metadata"]["managedFields"] = fields
    cache.put("Pod", posted)
    assert cache.owned("Pod", KEY)[0]["metadata"]["createdOnly"]
    applied = at(2)
    applied["metadata"]["managedFields"] = [{**fields[0], "operation": "Apply"}]
    cache.put("Pod", applied)
    assert not cache.owned("Pod", KEY)[0]["metadata"]["createdOnly"]
