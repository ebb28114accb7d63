"""Runs commands in a built image as Kubernetes would: its own user, a read-only root, a fresh /tmp."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster import images, images_build

# In namespaces of its own: bind the root read-only, mount what a container has, drop to the user.
ENTER = """
root=$1 user=$2; shift 2
mount --bind "$root" "$root" && mount -o remount,ro,bind "$root"
mount -t tmpfs tmpfs "$root/tmp" && chmod 1777 "$root/tmp"
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys"
exec chroot --userspec="$user" "$root" env -i "$@"
"""


class Container:
    """An image that commands can be run in, one after another; nothing that they write is kept."""

    def __init__(self, prefix: list[str], environment: dict[str, str] | None = None) -> None:
        self.prefix, self.environment = prefix, environment

    def run(self, *command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, or until `timeout` seconds are over: all its processes end then."""
        limited = ["timeout", "--signal=KILL", str(timeout), *self.prefix, *command]
        return subprocess.run(
            limited,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def container(built: images.Built, user: str = "") -> Iterator[Container]:
    """The image as a Container, of its own user or another (`uid:gid`)."""
    builder, stored = images_build.choose(), stored_name(built)
    if builder.program != "buildah":
        options = ["run", "--rm", "--read-only", "--tmpfs", "/tmp", "--entrypoint", "env"]
        options += ["--user", user, stored] if user else [stored]
        yield Container([*builder.command(), *options], builder.environment)
        return
    name = builder.run("from", stored).split()[-1]
    try:
        settings = configuration(built.layout)
        root = builder.run("mount", name).split()[-1]
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh"]
        yield Container([*unshare, root, user or settings["User"], *settings["Env"]])
    finally:
        builder.run("rm", name)


def stored_name(built: images.Built) -> str:
    """The image's name in the builder's store."""
    name = built.name.rpartition(":")[0].rpartition("/")[2]
    return f"{images.REPOSITORY}/{name}:{images.cache_key(built.layout, name)}"


def manifest(layout: Path) -> dict[str, Any]:
    """The manifest of a layout's one image."""
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    found: dict[str, Any] = json.loads(blob(layout, entry["digest"]).read_text())
    return found


def configuration(layout: Path) -> dict[str, Any]:
    """What the image says about running it: User, Env, Entrypoint."""
    digest = manifest(layout)["config"]["digest"]
    found: dict[str, Any] = json.loads(blob(layout, digest).read_text())["config"]
    return found


def blob(layout: Path, digest: str) -> Path:
    """The file of a blob."""
    return layout / "blobs" / digest.replace(":", "/", 1)
