"""Where a cluster's images come from."""

from __future__ import annotations

from typing import cast

import pytest

from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError
from tests.demo.install import image_values


class Users:
    """A cluster of the user's: nothing can be loaded into it."""

    kind = "current"


USERS = cast("Cluster", Users())


def test_a_cluster_of_the_users_without_a_registry_is_told_what_to_set() -> None:
    with pytest.raises(ClusterError, match=r"SLIDINGSERVE_REGISTRY is not set.*slidingserve/engine-cpu"):
        image_values(USERS, {})


def test_a_cluster_of_the_users_pulls_from_its_registry() -> None:
    asked = {"SLIDINGSERVE_REGISTRY": "registry.example/ml", "SLIDINGSERVE_IMAGE_TAG": "1.2"}
    assert image_values(USERS, asked) == {
        "images.registry": "registry.example/ml",
        "images.operator.tag": "1.2",
        "images.engineCpu.tag": "1.2",
    }


def test_without_a_tag_the_charts_own_version_holds() -> None:
    assert image_values(USERS, {"SLIDINGSERVE_REGISTRY": "r"}) == {"images.registry": "r"}
