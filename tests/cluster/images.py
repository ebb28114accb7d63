"""The product's images, built from their Dockerfiles with whatever builder this machine has.

    python -m tests.cluster.images build engine-cpu operator [--tag T] [--base-image IMAGE]

Top of four modules: this one says which images there are and what they are made of, `images_build` runs
docker, podman or buildah, `images_base` makes a base where no registry can be reached, `images_secrets`
tells a build how this machine reaches PyPI. An image is an OCI layout in the cache, keyed by the content of
what it is made of: unchanged inputs return at once.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import cache, images_base, images_build
from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "localhost/slidingserve"
KEPT = 2
"""Layouts kept of each image; older ones are deleted."""


@dataclass(frozen=True)
class Image:
    """One row: the Dockerfile and what it copies, both relative to the build context `directory`."""

    directory: str
    dockerfile: str
    inputs: tuple[str, ...]

    @property
    def context(self) -> Path:
        """The build context."""
        return ROOT / self.directory


_ENGINE = ("pyproject.toml", "constraints.txt", "constraints-cpu.txt", "slim", "slidingserve")
TABLE = {
    "engine": Image("engine-image", "Dockerfile", _ENGINE),
    "engine-cpu": Image("engine-image", "Dockerfile.cpu", _ENGINE),
    "operator": Image("operator", "Dockerfile", ("pyproject.toml", "constraints.txt", "sloserve_operator")),
}


@dataclass(frozen=True)
class Built:
    """An image that is there: its name with tag and its OCI layout (a directory)."""

    name: str
    layout: Path


def build(name: str, tag: str | None = None, base: str | None = None) -> Built:
    """Build the image `name` (a key of TABLE) unless the cache holds it; the tag defaults to its key.

    base: the BASE_IMAGE to build on; by default the Dockerfile's own, or one made by debootstrap where
    buildah is the only builder. Raises ClusterError with the builder's words.
    """
    if name not in TABLE:
        raise ClusterError(f"no image {name!r}; there are {', '.join(sorted(TABLE))}")
    image = TABLE[name]
    builder = images_build.choose()
    base = base or os.environ.get("SLIDINGSERVE_BASE_IMAGE") or default_base(builder)
    key = content_key(image, base or "")

    def make(layout: Path) -> None:
        with cache.step(f"image {name}: building with {builder.program}"):
            if base == images_base.NAME:
                images_base.ensure(builder)
            arguments = {"BASE_IMAGE": base} if base else {}
            builder.build(image.context, image.dockerfile, f"{REPOSITORY}/{name}:{key}", arguments, layout)

    layout = cache.make("images", name, key, make)
    _forget_old(name, layout, builder)
    return Built(f"{REPOSITORY}/{name}:{tag or key}", layout)


def ensure(cluster: Cluster, names: Iterable[str]) -> dict[str, str]:
    """Build the images and load them into the cluster; returns each one's full name with tag."""
    loaded = {}
    for name in names:
        built = build(name)
        cluster.load_image(built.layout, built.name)
        loaded[name] = built.name
    return loaded


def content_key(image: Image, base: str) -> str:
    """12 hex digits over everything that decides what is in the image."""
    parts: list[str | Path] = [base]
    for file in source_files(image):
        parts += [file.relative_to(image.context).as_posix(), file]
    return cache.digest(*parts)


def source_files(image: Image) -> Iterator[Path]:
    """The files that the image is made of, without compiled code (Python's, numba's) and egg-info."""
    for name in (image.dockerfile, ".dockerignore", *image.inputs):
        path = image.context / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            left_behind = any(part == "__pycache__" or part.endswith(".egg-info") for part in file.parts)
            if file.is_file() and not left_behind:
                yield file


def default_base(builder: images_build.Builder) -> str | None:
    """None (the Dockerfile's own base) where an engine pulls images, else the one that we make ourselves."""
    return images_base.NAME if builder.program == "buildah" else None


def _forget_old(name: str, newest: Path, builder: images_build.Builder) -> None:
    """Keep the last layouts of an image and drop the others, here and in the builder's store."""
    os.utime(newest)
    layouts = [path for path in newest.parent.glob(f"{name}-*") if cache_key(path, name)]
    for old in sorted(layouts, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        builder.forget(f"{REPOSITORY}/{name}:{cache_key(old, name)}")
        images_build.remove(old)


def cache_key(layout: Path, name: str) -> str:
    """The key in the name of a layout's directory; "" if it belongs to another image (engine, engine-cpu)."""
    key = layout.name.removeprefix(f"{name}-")
    return key if len(key) == 12 and "-" not in key else ""


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.images", description="Build images")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="build images and say where their OCI layouts are")
    command.add_argument("names", nargs="+", choices=sorted(TABLE), metavar="NAME", help=", ".join(TABLE))
    command.add_argument("--tag", help="instead of the hash of the content")
    command.add_argument("--base-image", help="instead of the Dockerfile's own base")
    chosen = parser.parse_args(arguments)
    try:
        for name in chosen.names:
            built = build(name, chosen.tag, chosen.base_image)
            print(f"{built.name} {built.layout}", flush=True)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
