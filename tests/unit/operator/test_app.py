"""How the process ends when it cannot start: one line that says what to mend, and a status."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OPERATOR = [sys.executable, "-m", "sloserve_operator.app"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OPERATOR, "--kubeconfig", "/nonexistent", *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("", 0)) as server:
        yield server.getsockname()[1]


def test_a_setting_that_is_no_number_is_named_with_its_value() -> None:
    ended = run("--workers", "abc")
    assert ended.returncode == 2
    assert "SLOSERVE_WORKERS or --workers: 'abc'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_setting_from_the_environment_out_of_bounds_is_named_with_its_value() -> None:
    ended = run(SLOSERVE_HEALTH_PORT="99999999")
    assert ended.returncode == 2
    assert "SLOSERVE_HEALTH_PORT" in ended.stderr
    assert "99999999" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_taken_port_is_said_in_one_line(taken: int) -> None:
    ended = run("--health-port", str(taken), "--metrics-port", "0", "--log-format", "text")
    assert ended.returncode == 1
    assert str(taken) in ended.stdout + ended.stderr
    assert "choose other health or metrics ports" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_missing_kubeconfig_is_said_in_one_line() -> None:
    ended = run("--health-port", "0", "--metrics-port", "0", "--log-format", "text")
    assert ended.returncode == 1
    assert "cannot start" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "content",
    [b"", b"word", b"a: [", b"\x00\xff\xfe", b"- a\n- b", b"clusters: 3", b"kind: Config\nusers: {"],
)
def test_a_kubeconfig_that_is_none_is_said_in_one_line_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(content)
    ended = run(
        "--kubeconfig", str(path), "--health-port", "0", "--metrics-port", "0", "--log-format", "text"
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert "Traceback" not in said
    (line,) = said.splitlines()
    for part in ("cannot start", str(path), "kubectl config view"):
        assert part in line


def test_namespaces_that_name_none_are_not_the_whole_cluster() -> None:
    ended = run(SLOSERVE_NAMESPACES=" , ")
    assert ended.returncode == 2
    assert "SLOSERVE_NAMESPACES" in ended.stderr
    assert "it names no namespace" in ended.stderr
