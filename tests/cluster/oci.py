"""OCI image layouts without a container engine: written from files, read back, and thinned for an import.

A layout is a directory with `oci-layout`, `index.json` and `blobs/sha256/*`; layers stay uncompressed, since
they go to a content store on the same machine. Same input, same bytes.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(
    out: Path,
    name: str,
    files: Mapping[str, Path],
    config: Mapping[str, Any],
    directories: Mapping[str, int] | None = None,
) -> Path:
    """Write an image of one layer to the directory `out` and return it.

    files: absolute path in the image -> file on this machine (its mode is kept, owner is root). config: the
    image's run configuration as OCI has it (Entrypoint, Cmd, User, Env...). directories: path in the image
    -> mode, for places that must exist (a writable /tmp, a mount point).
    """
    blobs = out / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layer = _file_blob(blobs, files, directories or {})
    image = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _json_blob(blobs, image, _CONFIG),
        "layers": [layer],
    }
    write_index(out, name, _json_blob(blobs, manifest, _MANIFEST))
    return out


def write_index(out: Path, name: str, manifest: dict[str, Any]) -> None:
    """Write `oci-layout` and an `index.json` that gives the manifest (an OCI descriptor) the name `name`."""
    annotations = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rsplit(":", 1)[1],
    }
    entry = {**manifest, "annotations": annotations}
    (out / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (out / "index.json").write_text(
        json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]})
    )


def manifest_digest(layout: Path) -> str:
    """The digest of the one image in a layout."""
    return str(_only_manifest(layout)["digest"])


def thin_tar(layout: Path, name: str, held: Collection[str], out: IO[bytes]) -> int:
    """Stream a layout to `out` as a tar named `name`, without the layers in `held`; returns bytes sent.

    held: digests that the receiving content store already has. Manifest and configuration are always sent: an
    importer reads them from the archive.
    """
    entry = _only_manifest(layout)
    manifest = json.loads(_blob(layout, entry["digest"]).read_bytes())
    always = {entry["digest"], manifest["config"]["digest"]}
    wanted = [
        entry["digest"],
        manifest["config"]["digest"],
        *(layer["digest"] for layer in manifest["layers"]),
    ]
    annotations = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rsplit(":", 1)[1],
    }
    index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": annotations}]}
    sent = 0
    with tarfile.open(fileobj=out, mode="w|", bufsize=1 << 20) as archive:
        _add_bytes(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        for digest in dict.fromkeys(wanted):
            if digest in held and digest not in always:
                continue
            blob = _blob(layout, digest)
            with blob.open("rb") as content:
                archive.addfile(_entry(f"blobs/sha256/{blob.name}", blob.stat().st_size), content)
            sent += blob.stat().st_size
        _add_bytes(archive, "index.json", json.dumps(index).encode())
    return sent


def _only_manifest(layout: Path) -> dict[str, Any]:
    manifests: list[dict[str, Any]] = json.loads((layout / "index.json").read_text())["manifests"]
    if len(manifests) != 1:
        raise ValueError(
            f"{layout}: index.json holds {len(manifests)} manifests; a layout of one image is needed"
        )
    return manifests[0]


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/", 1)


def _json_blob(blobs: Path, value: Mapping[str, Any], media_type: str) -> dict[str, Any]:
    content = json.dumps(value, sort_keys=True).encode()
    name = hashlib.sha256(content).hexdigest()
    (blobs / name).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(content)}


def _file_blob(blobs: Path, files: Mapping[str, Path], directories: Mapping[str, int]) -> dict[str, Any]:
    """The layer: every parent directory, the wanted directories and the files, in sorted order."""
    parents = {parent.as_posix() for dest in [*files, *directories] for parent in Path(dest).parents} - {"/"}
    modes = dict.fromkeys(parents, 0o755) | {dest.rstrip("/"): mode for dest, mode in directories.items()}
    work = blobs / "layer"
    with tarfile.open(work, "w", format=tarfile.PAX_FORMAT) as archive:
        for dest, mode in sorted(modes.items()):
            entry = _entry(dest.lstrip("/"), 0, mode)
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
        for dest, source in sorted(files.items()):
            with source.open("rb") as content:
                size, mode = source.stat().st_size, source.stat().st_mode & 0o7777
                archive.addfile(_entry(dest.lstrip("/"), size, mode), content)
    with work.open("rb") as content:
        name = hashlib.file_digest(content, "sha256").hexdigest()
    size = work.stat().st_size
    work.rename(blobs / name)
    return {"mediaType": _LAYER, "digest": f"sha256:{name}", "size": size}


def _entry(name: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    return entry


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_entry(name, len(content)), io.BytesIO(content))
