"""Loading an image sends what is missing, replaces what had its name, and frees what has none."""

from pathlib import Path

import pytest

from tests.cluster import oci
from tests.cluster.api import Cluster
from tests.cluster.local import LocalCluster

pytestmark = pytest.mark.cluster
NAME, OTHER = "localhost/slidingserve/loading:1", "localhost/slidingserve/loading:2"
MEGABYTES = 3_000_000


@pytest.fixture
def local(cluster: Cluster) -> LocalCluster:
    """The cluster, if it is the local one: kind loads images by commands of its own."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip(f"kind: CLUSTER={cluster.kind} has no containerd of ours")
    return cluster


def image(directory: Path, content: bytes) -> Path:
    """An image that holds 3 MB of `content`."""
    directory.mkdir()
    (directory / "data").write_bytes(content * (MEGABYTES // len(content)))
    return oci.write_image(directory / "layout", NAME, {"/data": directory / "data"}, {})


def test_only_what_is_missing_is_sent_and_a_replaced_image_is_freed(
    local: LocalCluster, tmp_path: Path
) -> None:
    first, second = image(tmp_path / "first", b"first."), image(tmp_path / "second", b"second")
    containerd = local.containerd
    try:
        assert containerd.load(first, NAME) > MEGABYTES
        assert containerd.load(first, NAME) == 0
        assert 0 < containerd.load(first, OTHER) < 10_000
        assert containerd.images()[OTHER][0] == oci.manifest_digest(first)
        assert containerd.load(second, NAME) > MEGABYTES
        assert containerd.images()[NAME] == (oci.manifest_digest(second), True)
        assert containerd.images()[OTHER][0] == oci.manifest_digest(first)
        assert 0 < containerd.load(second, OTHER) < 10_000
        assert oci.manifest_digest(first) not in {digest for digest, _ in containerd.images().values()}
        assert containerd.load(first, NAME) > MEGABYTES
    finally:
        containerd.remove_images(NAME, OTHER)
