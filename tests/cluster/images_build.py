"""docker, podman or buildah, the first that answers, behind one small interface.

One of four modules (see `images`). All three programs build the same Dockerfiles and give an OCI layout
with layers that a content store can keep as they are.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.cluster import cache, debian, images_secrets, oci, say
from tests.cluster.cache import ClusterError


class Builder(ABC):
    """A program that turns a Dockerfile into an image."""

    program: str

    @abstractmethod
    def command(self) -> list[str]:
        """The program and the options that every call of it has."""

    @abstractmethod
    def save(self, name: str, layout: Path) -> None:
        """Write the image to the OCI layout `layout`; blobs that are there already may be reused."""

    @property
    def build_options(self) -> list[str]:
        """What `build` needs beside the common options."""
        return []

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every call."""
        return dict(os.environ)

    def answers(self) -> bool:
        """Whether it works here, its engine included."""
        if not shutil.which(self.program):
            return False
        try:
            done = subprocess.run([self.program, "info"], capture_output=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def build(
        self, context: Path, dockerfile: str, name: str, arguments: Mapping[str, str], layout: Path
    ) -> None:
        """Build `name` from `context`/`dockerfile` and write it to the OCI layout `layout`.

        arguments: build arguments. Raises ClusterError with the end of the builder's output.
        """
        with images_secrets.secrets() as files:
            options = [f"--secret=id={key},src={path}" for key, path in files.items()]
            options += [f"--build-arg={key}={value}" for key, value in arguments.items()]
            file = str(context / dockerfile)
            self.run("build", *self.build_options, *options, "-f", file, "-t", name, str(context))
        borrow_blobs(layout)
        self.save(name, layout)
        finish_layout(layout, name)

    def forget(self, name: str) -> None:
        """Drop an image from the builder's store; one that is not there is no error."""
        subprocess.run([*self.command(), "rmi", name], env=self.environment, capture_output=True, check=False)

    def run(self, *arguments: str) -> str:
        """Run one call, showing its steps; ClusterError with the end of its output if it fails."""
        begin, tail = time.monotonic(), deque[str](maxlen=200)
        with subprocess.Popen(
            [*self.command(), *arguments], env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for line in process.stdout:
                tail.append(line)
                if "STEP " in line or line.startswith("#"):
                    say.line(f"  {time.monotonic() - begin:5.0f} s  {line.strip()[:110]}")
        output = "".join(tail)
        if process.returncode:
            raise ClusterError(f"{self.program} {arguments[0]} failed:\n{output[-3000:]}")
        return output


class Docker(Builder):
    """Docker with BuildKit."""

    program = "docker"

    def command(self) -> list[str]:
        """Plain docker."""
        return ["docker"]

    @property
    def environment(self) -> dict[str, str]:
        """BuildKit on, for secrets and cache mounts."""
        return {**os.environ, "DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}

    @property
    def build_options(self) -> list[str]:
        """No attestations: they would make the image an index of two."""
        return ["--provenance=false"]

    def save(self, name: str, layout: Path) -> None:
        """`docker save`, which since Docker 25 is an OCI layout."""
        with tempfile.TemporaryDirectory(dir=layout.parent) as work:
            archive = Path(work) / "image.tar"
            self.run("save", "-o", str(archive), name)
            with tarfile.open(archive) as packed:
                packed.extractall(layout, filter="data")
        if not (layout / "oci-layout").exists():
            raise ClusterError("docker save wrote no OCI layout: Docker 25 or newer is needed")


class Podman(Builder):
    """Podman, rootless or not."""

    program = "podman"

    def command(self) -> list[str]:
        """Plain podman."""
        return ["podman"]

    @property
    def build_options(self) -> list[str]:
        """Keep the layers of every step for the next build."""
        return ["--layers", "--force-rm"]

    def save(self, name: str, layout: Path) -> None:
        """`podman push` to a directory."""
        self.run("push", name, f"oci:{layout}:latest")


class Buildah(Builder):
    """Buildah without a daemon, in a store of its own below the cache."""

    program = "buildah"

    def __init__(self) -> None:
        self.home = cache.root() / "buildah"

    def command(self) -> list[str]:
        """With own storage, on overlayfs."""
        roots = ["--root", str(self.home / "store"), "--runroot", str(self.home / "run")]
        return ["buildah", *roots, "--storage-driver", "overlay"]

    @property
    def environment(self) -> dict[str, str]:
        """TMPDIR also holds what cache mounts keep between builds; it is made if it is not there."""
        temporary = self.home / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        return {**os.environ, "TMPDIR": str(temporary), "BUILDAH_ISOLATION": "chroot"}

    @property
    def build_options(self) -> list[str]:
        """Keep the layers of every step for the next build, and no working containers."""
        return ["--layers", "--force-rm"]

    def save(self, name: str, layout: Path) -> None:
        """Layers stay uncompressed, as they do not leave this machine.

        A push to an OCI layout leaves out the blobs that are there but compresses the rest, whatever it is
        told; one to a plain directory compresses nothing but writes everything. So the first way is taken
        where most layers are there (a change of code), the second where the large ones may be new.
        """
        layers = self.run("inspect", "--format", "{{range .OCIv1.RootFS.DiffIDs}}{{.}} {{end}}", name).split()
        blobs = layout / "blobs" / "sha256"
        if sum((blobs / digest.partition(":")[2]).exists() for digest in layers) > len(layers) / 2:
            self.run("push", "--disable-compression", name, f"oci:{layout}:latest")
            return
        with tempfile.TemporaryDirectory(dir=layout) as work:
            self.run("push", "--disable-compression", "--format", "oci", name, f"dir:{work}")
            manifest = Path(work, "manifest.json").read_bytes()
            for blob in Path(work).glob("?" * 64):
                blob.replace(blobs / blob.name)
        digest = hashlib.sha256(manifest).hexdigest()
        (blobs / digest).write_bytes(manifest)
        descriptor = {
            "mediaType": json.loads(manifest)["mediaType"],
            "digest": f"sha256:{digest}",
            "size": len(manifest),
        }
        oci.write_index(layout, name, descriptor)


def choose() -> Builder:
    """The first builder that answers; as root on Debian, buildah is installed where there is none."""
    for builder in (Docker(), Podman()):
        if builder.answers():
            return builder
    if os.geteuid() != 0:
        raise ClusterError(
            "no image builder answers: start Docker, install podman, or run this as root (for buildah)"
        )
    debian.require(debian.IMAGES)
    return Buildah()


def needs_buildah() -> bool:
    """Whether no container engine answers, so that images are built by buildah."""
    return not any(builder.answers() for builder in (Docker(), Podman()))


def borrow_blobs(layout: Path) -> None:
    """Link the blobs of the other layouts beside `layout` into it: builders write only what is not there."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    for blob in layout.parent.glob("[a-z]*/blobs/sha256/*"):
        with suppress(FileExistsError, FileNotFoundError):  # shared by layouts; deleted meanwhile
            os.link(blob, blobs / blob.name)


def finish_layout(layout: Path, name: str) -> None:
    """Give the layout's one image its name and drop the blobs that are not its."""
    manifests = json.loads((layout / "index.json").read_text())["manifests"]
    descriptor = {key: manifests[0][key] for key in ("mediaType", "digest", "size")}
    oci.write_index(layout, name, descriptor)
    manifest = json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text())
    layers = (row["digest"] for row in manifest["layers"])
    digests = {descriptor["digest"], manifest["config"]["digest"], *layers}
    for blob in (layout / "blobs" / "sha256").iterdir():
        if f"sha256:{blob.name}" not in digests:
            blob.unlink()


def remove(layout: Path) -> None:
    """Delete a layout; blobs that other layouts have stay there."""
    shutil.rmtree(layout, ignore_errors=True)
