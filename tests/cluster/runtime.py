"""containerd in the local cluster's node: its images and containers, by `ctr`.

Loading is thin: only the layers that the content store lacks travel, so that a rebuilt image with a small top
layer costs what that layer costs.
"""

import subprocess
import time
from pathlib import Path

from tests.cluster import cache, config, oci, tools
from tests.cluster.cache import ClusterError, wait_for
from tests.cluster.node import Node

CTR = ("ctr", "--address", config.CONTAINERD, "--namespace", "k8s.io")


class Containerd:
    """The daemon in `node`, in the kubelet's namespace."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def start(self) -> None:
        """Start it and wait until it answers; containers that a killed node left in it are removed."""
        self.node.start("containerd")
        self._wait(self._answers)
        if self.node.process("kubelet") is None and self._ctr("containers", "ls", "-q").split():
            self.remove_containers()
            if process := self.node.process("containerd"):  # it has read them into memory
                process.kill()
            self.node.start("containerd")
            self._wait(self._answers)

    def remove_containers(self) -> None:
        """End and forget every container; their writable layers go with them."""
        if tasks := self._ctr("tasks", "ls", "-q", check=False).split():
            for task in tasks:
                self._ctr("tasks", "kill", "--signal", "SIGKILL", task, check=False)
            self._ctr("tasks", "rm", "--force", *tasks, check=False)
        if containers := self._ctr("containers", "ls", "-q", check=False).split():
            self._ctr("containers", "rm", *containers, check=False)

    def images(self) -> dict[str, tuple[str, bool]]:
        """Name -> (digest, whether the kubelet's side of containerd has seen it)."""
        rows = [line.split() for line in self._ctr("images", "ls").splitlines()[1:]]
        return {row[0]: (row[2], "io.cri-containerd.image=managed" in row[-1]) for row in rows}

    def load(self, layout: Path, name: str) -> int:
        """Import an OCI layout as `name` unless exactly this image is there; a replaced image is freed.

        Returns the bytes of blobs that were sent, 0 if it was there.
        """
        wanted, before = oci.manifest_digest(layout), self.images()
        if before.get(name) == (wanted, True):
            return 0
        begin = time.monotonic()
        sent = self._import(layout, name, set(self._ctr("content", "ls", "-q").split()))
        self._wait(lambda: self.images().get(name) == (wanted, True))
        if name in before and before[name][0] != wanted:
            self._forget(before[name][0])
        print(f"image {name}: {sent / 1e6:.0f} MB sent in {time.monotonic() - begin:.1f} s", flush=True)
        return sent

    def _import(self, layout: Path, name: str, held: set[str]) -> int:
        """Stream the layout into `ctr images import`; returns the bytes of the layers that were sent."""
        command = self.node.command(*CTR, "images", "import", "-")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as ctr:
            assert ctr.stdin is not None
            assert ctr.stdout is not None
            try:
                sent = oci.thin_tar(layout, name, held, ctr.stdin)
                ctr.stdin.close()
            except BrokenPipeError:
                sent = 0
            output = ctr.stdout.read().decode(errors="replace")
        if ctr.returncode == 0:
            return sent
        if held:  # a layer went away between the look and the import: send everything
            return self._import(layout, name, set())
        raise ClusterError(f"import of {name} from {layout} failed: {output[-1500:]}")

    def remove_images(self, *names: str) -> None:
        """Remove images by name, and their layers where nothing else needs them."""
        for name in names:
            if name in (known := self.images()):
                self._ctr("images", "rm", "--sync", name)
                self._forget(known[name][0])

    def _forget(self, digest: str) -> None:
        """Drop the nameless references to a replaced image: with them its layers are never freed."""
        same = [name for name, (target, _) in self.images().items() if target == digest]
        if same and all(name.startswith("sha256:") or "@" in name for name in same):
            self._ctr("images", "rm", "--sync", *same, check=False)

    def _answers(self) -> bool:
        return "Server:" in self._ctr("version", check=False)

    def _wait(self, ready: "cache.Condition") -> None:
        wait_for("containerd", ready, seconds=180, details=lambda: self.node.log_tail("containerd"))

    def _ctr(self, *arguments: str, check: bool = True) -> str:
        return self.node.run(*CTR, *arguments, check=check)


def base_images(*, dns: bool) -> list[tuple[Path, str]]:
    """Layout and name of what every cluster needs: pause and, for DNS, CoreDNS."""
    pause = binary_image("pause", config.PAUSE_IMAGE, {"User": "65535:65535"}), config.PAUSE_IMAGE
    return [pause, (binary_image("coredns", config.COREDNS_IMAGE), config.COREDNS_IMAGE)] if dns else [pause]


def binary_image(
    tool: str, name: str, image: dict[str, object] | None = None, place: str | None = None
) -> Path:
    """The OCI layout, in the cache, of an image that holds one of our static binaries and nothing else.

    `place`: the binary's path in the image, by default /TOOL.
    """
    binary, place = tools.path(tool), place or f"/{tool}"
    settings: dict[str, object] = {"Entrypoint": [f"/{tool}"], **(image or {})}
    key = cache.digest(binary.parent.name, name, repr(settings), place)
    return cache.make(
        "images", tool, key, lambda work: oci.write_image(work, name, {place: binary}, settings)
    )
