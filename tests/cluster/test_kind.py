"""The kind kind. Its commands are checked with stand-ins for docker and kind; a real cluster needs Docker."""

from pathlib import Path

import pytest

from tests.cluster import oci, tools
from tests.cluster.api import chosen_kind, docker_answers
from tests.cluster.cache import ClusterError
from tests.cluster.kind import Kind

STAND_IN = """\
#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case "$*" in
"get clusters") cat "$CALLS.clusters" ;;
"create cluster"*) echo slidingserve >"$CALLS.clusters"; touch "$KIND_KUBECONFIG" ;;
"load image-archive"*) tar -tf "$3" | sort >"$CALLS.archive" ;;
"get nodes -o"*) echo control-plane ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """docker, kind and kubectl that note how they are called in this file and do next to nothing."""
    for name in ("docker", "kind", "kubectl"):
        (tmp_path / name).write_text(STAND_IN)
        (tmp_path / name).chmod(0o755)
    notes = tmp_path / "calls"
    Path(f"{notes}.clusters").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(notes))
    monkeypatch.setenv("SLIDINGSERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KIND_KUBECONFIG", str(tmp_path / "cache" / "kind" / "kubeconfig"))
    monkeypatch.setattr(tools, "path", lambda name: tmp_path / name)
    return notes


def test_up_creates_the_cluster_once_and_fakes_gpus_each_time(calls: Path) -> None:
    Kind().up()
    Kind().up()
    made = calls.read_text().splitlines()
    assert len([call for call in made if call.startswith("kind create cluster --name slidingserve")]) == 1
    assert f"kindest/node:{tools.KUBERNETES}" in calls.read_text()
    patches = [
        call for call in made if call.startswith("kubectl patch node control-plane --subresource=status")
    ]
    assert len(patches) == 2
    assert '"nvidia.com/gpu": "8"' in patches[0]


def test_kind_is_the_default_only_where_docker_and_kind_are_both_there(calls: Path) -> None:
    assert chosen_kind({}) == "kind"
    (calls.parent / "kind").unlink()
    assert chosen_kind({}) == "local"
    assert chosen_kind({"CLUSTER": "kind"}) == "kind"


def test_an_image_is_loaded_as_an_archive_of_its_layout(calls: Path, tmp_path: Path) -> None:
    layout = oci.write_image(tmp_path / "layout", "localhost/x:1", {"/file": calls.parent / "kind"}, {})
    Kind().load_image(layout, "localhost/x:1")
    packed = Path(f"{calls}.archive").read_text().split()
    assert {"./index.json", "./oci-layout"} <= set(packed)
    assert f"./blobs/sha256/{oci.manifest_digest(layout).removeprefix('sha256:')}" in packed


def test_without_docker_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClusterError, match="Start Docker, or use CLUSTER=local"):
        Kind().up()


@pytest.mark.kind
@pytest.mark.cluster
@pytest.mark.skipif(not docker_answers(), reason="kind: needs a Docker engine that answers")
def test_a_real_kind_cluster_comes_up_with_gpus_and_goes() -> None:
    cluster = Kind()
    was_there = cluster.exists()
    try:
        cluster.up()
        gpus = "jsonpath={.items[*].status.allocatable.nvidia\\.com/gpu}"
        assert cluster.kubectl("get", "nodes", "-o", gpus) == "8"
    finally:
        if not was_there:
            cluster.down()
