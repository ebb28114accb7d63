"""Images are written without a container engine, the same bytes each time, and sent without what is there."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.cluster import oci

NAME = "localhost/slidingserve/test:1"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An image with one executable and a writable /tmp."""
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/true\n")
    program.chmod(0o755)
    return oci.write_image(
        tmp_path / "image", NAME, {"/bin/program": program}, {"User": "1000"}, {"/tmp": 0o1777}
    )


def blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()


def members(archive: io.BytesIO) -> dict[str, tarfile.TarInfo]:
    archive.seek(0)
    with tarfile.open(fileobj=archive) as packed:
        return {member.name: member for member in packed}


def test_the_layer_holds_files_with_their_modes_and_the_wanted_directories(layout: Path) -> None:
    manifest = json.loads(blob(layout, oci.manifest_digest(layout)))
    config = json.loads(blob(layout, manifest["config"]["digest"]))
    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    assert config["config"] == {"User": "1000"}
    found = members(io.BytesIO(blob(layout, layer["digest"])))
    assert {name: oct(entry.mode) for name, entry in found.items()} == {
        "bin": "0o755",
        "tmp": "0o1777",
        "bin/program": "0o755",
    }
    assert all(entry.uid == 0 and entry.mtime == 0 for entry in found.values())


def test_the_same_files_give_the_same_image(layout: Path, tmp_path: Path) -> None:
    again = oci.write_image(
        tmp_path / "again", NAME, {"/bin/program": tmp_path / "program"}, {"User": "1000"}, {"/tmp": 0o1777}
    )
    assert oci.manifest_digest(again) == oci.manifest_digest(layout)


def test_a_full_tar_holds_every_blob_under_the_new_name(layout: Path) -> None:
    out = io.BytesIO()
    oci.thin_tar(layout, "localhost/other:2", set(), out)
    found = members(out)
    assert len([name for name in found if name.startswith("blobs/")]) == 3
    out.seek(0)
    with tarfile.open(fileobj=out) as packed:
        index = json.load(packed.extractfile("index.json") or io.BytesIO())
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "localhost/other:2"


def test_a_thin_tar_leaves_out_held_layers_and_nothing_else(layout: Path) -> None:
    manifest = json.loads(blob(layout, oci.manifest_digest(layout)))
    layer, config = manifest["layers"][0]["digest"], manifest["config"]["digest"]
    out = io.BytesIO()
    sent = oci.thin_tar(layout, NAME, {layer, config, oci.manifest_digest(layout)}, out)
    blobs = {f"sha256:{Path(name).name}" for name in members(out) if name.startswith("blobs/")}
    assert blobs == {config, oci.manifest_digest(layout)}
    assert sent == len(blob(layout, config)) + len(blob(layout, oci.manifest_digest(layout)))


def test_a_layout_of_several_images_is_refused(layout: Path) -> None:
    index = json.loads((layout / "index.json").read_text())
    (layout / "index.json").write_text(json.dumps({**index, "manifests": index["manifests"] * 2}))
    with pytest.raises(ValueError, match="holds 2 manifests"):
        oci.manifest_digest(layout)
