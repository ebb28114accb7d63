"""What a person sees while Go compiles: how far it is and about how long yet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster import cache, compile, golang, say, tools
from tests.cluster.cache import ClusterError

LOG = """\
go: downloading example.com/x v1.0.0
runtime
k8s.io/api/core/v1
# command
./main.go:3:1: undefined: x
"""


def test_packages_are_counted_and_not_what_go_says_of_downloads_and_errors() -> None:
    assert compile.compiled(LOG) == 2


@pytest.mark.parametrize(
    ("begun", "total", "seconds", "line"),
    [
        (100, 400, 60, "build kc: 60 s, 25% (100 of 400 packages), about 3 min left"),
        (398, 400, 200, "build kc: 200 s, 100% (398 of 400 packages), about 10 s left"),
        (400, 400, 200, "build kc: 200 s, 100% (400 of 400 packages), linking"),
        (402, 400, 200, "build kc: 200 s, 100% (400 of 400 packages), linking"),
        (4, 400, 10, "build kc: 10 s, 1% (4 of 400 packages)"),
        (0, 400, 10, "build kc: 10 s, 0 packages compiled"),
        (7, 0, 10, "build kc: 10 s, 7 packages compiled"),
    ],
)
def test_a_long_build_says_its_fraction_and_what_is_left(
    begun: int, total: int, seconds: float, line: str
) -> None:
    assert compile.progress("build kc", begun, total, seconds) == line


def test_a_real_build_in_a_pipe_says_so_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile, "EVERY", 0.0)
    monkeypatch.setenv("GOCACHE", compile.environment()["GOCACHE"])
    (tmp_path / "go.mod").write_text("module slow\n\ngo 1.24.0\n")
    (tmp_path / "main.go").write_text("package main\n\nfunc main() {}\n")
    script = "echo runtime; sleep 2"
    compile.run("build slow", ["sh", "-c", script], tmp_path, compile.environment(), tmp_path / "log", 4)
    said = capsys.readouterr().out
    assert re.search(r"^  build slow: \d s, 25% \(1 of 4 packages\), about \d+ s left$", said, re.MULTILINE)
    assert "\r" not in said
    assert compile.stale(["."], ["-trimpath"], tmp_path, compile.environment()) >= 1
    assert compile.stale(["./no/such"], [], tmp_path, compile.environment()) == 0


def test_a_terminals_line_is_rewritten_and_wiped_before_a_whole_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(say, "rewrites", lambda: True)
    say.live("half")
    say.live("more")
    say.line("an image is there")
    say.live("done soon")
    say.done()
    assert capsys.readouterr().out == (
        "\r\x1b[Khalf\r\x1b[Kmore\r\x1b[Kan image is there\n\r\x1b[Kdone soon\r\x1b[K"
    )


@pytest.mark.parametrize(
    ("name", "said", "serves"),
    [
        ("helm", "v3.17.0+g301108e", True),
        ("helm", "v4.3.2", True),
        ("helm", "v3.12.3", False),
        ("helm", "", False),
        ("kubectl", "Client Version: v1.34.1", True),
        ("kubectl", "Client Version: v1.30.0", False),
    ],
)
def test_this_machines_own_program_serves_if_it_is_recent_enough(
    name: str, said: str, serves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(f"#!/bin/sh\necho '{said}'\n")
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert tools.own.__wrapped__(name) == (tmp_path / name if serves else None)


def test_nothing_is_fetched_to_look_whether_a_tool_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIDINGSERVE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(golang, "_fetch", lambda work: pytest.fail("Go was fetched"))
    monkeypatch.setattr(golang, "at_hand", lambda: False)
    assert tools.at_hand("helm") is None
    assert cache.root() == tmp_path
    with pytest.raises(ClusterError, match="no tool is called 'kustomize'"):
        tools.at_hand("kustomize")
