"""How this machine reaches PyPI, as build-time secrets of an image build: they are in no layer.

One of four modules (see `images`): certificates of the machine, and an index of its own if pip has one.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
INDEX_KEYS = ("index-url", "extra-index-url", "trusted-host")


@contextmanager
def secrets() -> Iterator[dict[str, Path]]:
    """Files by secret id that let a build reach PyPI the way this machine does."""
    found: dict[str, Path] = {}
    bundle = Path(os.environ.get("SSL_CERT_FILE") or CERTIFICATES)
    if bundle.is_file():
        found["ca-bundle"] = bundle
    with tempfile.TemporaryDirectory() as work:
        if settings := index_settings():
            found["pip.conf"], found["uv.toml"] = Path(work) / "pip.conf", Path(work) / "uv.toml"
            lines = [f"{key} = {' '.join(values)}\n" for key, values in settings.items()]
            found["pip.conf"].write_text("[global]\n" + "".join(lines))
            found["uv.toml"].write_text(uv_settings(settings))
        yield found


def index_settings() -> dict[str, list[str]]:
    """pip's index settings of this machine, from files and environment, and nothing else of its settings."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        key = name.rpartition(".")[2]
        if key in INDEX_KEYS:
            found[key] = value.strip("'\"").replace("\\n", " ").split()
    return found


def uv_settings(settings: Mapping[str, list[str]]) -> str:
    """The same as a uv.toml."""
    lines = []
    if "index-url" in settings:
        lines.append(f"index-url = {json.dumps(settings['index-url'][0])}")
    if "extra-index-url" in settings:
        lines.append(f"extra-index-url = {json.dumps(settings['extra-index-url'])}")
    if "trusted-host" in settings:
        lines.append(f"allow-insecure-host = {json.dumps(settings['trusted-host'])}")
    return "\n".join(lines) + "\n"
