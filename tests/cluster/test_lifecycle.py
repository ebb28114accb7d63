"""`up` and `down` of the local cluster, on one in a place of its own beside that of the other tests."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.cluster import api, cgroups, foreign, node
from tests.cluster.cache import ClusterError
from tests.cluster.config import Place
from tests.cluster.local import LocalCluster
from tests.cluster.pods import PROBE, apply, load_probe, pod
from tests.cluster.processes import Process

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        api.chosen_kind() != "local", reason="kind: a cluster in Docker is not brought up and down here"
    ),
]
CGROUPS = ("slidingtest", "kubepods", "k8s.io")
KUBELET_FILES = ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/netns")
SPARE = Place("slidingtest", "10.247.0.1", "10.247.0.2", "10.248.0.0/24", "10.97.0.0/16")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The spare cluster's state directory: its images serve all tests of this module."""
    directory = tmp_path_factory.mktemp("spare")
    yield directory
    LocalCluster(directory, SPARE).down(drop_images=True)
    shutil.rmtree(directory)


@pytest.fixture
def spare(state: Path) -> Iterator[LocalCluster]:
    """The spare cluster, down before and after."""
    cluster = LocalCluster(state, SPARE)
    yield cluster
    cluster.down()


def links() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def rules(program: str) -> list[str]:
    """All rules and chains of the host's network, without counters and comments."""
    lines = output(program).splitlines()
    return sorted(line.partition(" [")[0] for line in lines if not line.startswith("#"))


def host_state() -> dict[str, object]:
    """All of the host that a cluster could leave a trace in, processes and mounts apart."""
    return {
        "IPv4 rules": rules("iptables-save"),
        "IPv6 rules": rules("ip6tables-save"),
        "links": links(),
        "routes": sorted(output("ip", "route", "show", "table", "all").splitlines()),
        "network namespaces": output("ip", "netns", "list"),
        "cgroups": [own for root in cgroups.hierarchies() for own in root.iterdir() if own.name in CGROUPS],
        "kernel settings": {name: Path("/proc/sys", name).read_text() for name in node.TUNABLES},
        "files": [path for path in KUBELET_FILES if Path(path).exists()],
    }  # fmt: skip


def mounts(state: Path) -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(state) in line]


def processes(pid_namespace: str, state: Path) -> list[str]:
    """Processes of the node, and those around it that know its state directory; zombies do not count."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            inside = str((process / "ns" / "pid").readlink()) == pid_namespace
            around = str(state).encode() in (process / "cmdline").read_bytes() and process.name != str(
                os.getpid()
            )
            zombie = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if (inside or around) and not zombie:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def start_pod(cluster: LocalCluster) -> None:
    load_probe(cluster)
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    apply(cluster, "default", pod("web"))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")


def test_down_leaves_nothing_behind_and_up_works_again(spare: LocalCluster) -> None:
    before = host_state()
    for known_images in (set(), {PROBE}):
        spare.up()
        assert known_images <= set(spare.containerd.images())
        start_pod(spare)
        init = spare.node.process("init")
        assert init is not None
        inside = str(Path(f"/proc/{init.pid}/ns/pid").readlink())
        assert len(processes(inside, spare.state)) > 10
        assert host_state() != before
        spare.down()
        assert processes(inside, spare.state) == []
        assert mounts(spare.state) == []
        assert host_state() == before
        assert not spare.kubeconfig.exists()
        assert not any((spare.node.lib / name).exists() for name in ("etcd", "kubelet", "cni"))
    spare.down()
    assert (spare.node.lib / "containerd").exists()
    spare.down(drop_images=True)
    assert not (spare.node.lib / "containerd").exists()


def test_a_second_up_only_starts_what_has_died(spare: LocalCluster) -> None:
    spare.up()
    before = spare.status()
    assert "down" not in before.values()
    spare.up()
    assert spare.status() == before
    scheduler = spare.node.process("kube-scheduler")
    assert scheduler is not None
    scheduler.kill()
    assert spare.status() == {**before, "kube-scheduler": "down"}
    spare.up()
    after = spare.status()
    assert after["kube-scheduler"] not in ("down", before["kube-scheduler"])
    assert {**after, "kube-scheduler": ""} == {**before, "kube-scheduler": ""}
    start_pod(spare)


def test_up_comes_back_empty_after_the_node_was_killed(spare: LocalCluster) -> None:
    spare.up()
    start_pod(spare)
    old = set(spare.node.run("ctr", "-n", "k8s.io", "containers", "ls", "-q").split())
    init = spare.node.process("init")
    assert init is not None
    init.kill()
    assert not spare.is_up()
    spare.up()
    assert spare.kubectl("get", "pods", "-n", "default", "-o", "name") == ""
    assert not old & set(spare.node.run("ctr", "-n", "k8s.io", "containers", "ls", "-q").split())
    start_pod(spare)


def test_an_interrupted_boot_is_begun_anew(spare: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(cgroups, "create", Mock(side_effect=RuntimeError("interrupted")))
        with pytest.raises(RuntimeError, match="interrupted"):
            spare.up()
    assert spare.node.process("init") is not None
    spare.up()
    assert spare.is_up()


def test_a_recorded_process_whose_number_is_used_again_is_not_killed(spare: LocalCluster) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        recorded = Process.of(bystander.pid)
        for other in (
            Process(recorded.pid, recorded.start - 1, recorded.boot),
            Process(recorded.pid, recorded.start, "another boot"),
        ):
            assert not other.alive()
            other.kill()
        assert bystander.poll() is None
        recorded.kill()
        assert bystander.wait() == -signal.SIGKILL
    finally:
        bystander.kill()


def refused_in_a_network_of_its_own(setup: str) -> str:
    """What `foreign.refuse` says in a fresh network namespace after the shell lines `setup`."""
    program = "from tests.cluster import foreign, config; foreign.refuse(config.Place())"
    script = f'ip link set lo up\n{setup}\n"{sys.executable}" -c "{program}"'
    done = subprocess.run(
        ["unshare", "--net", "sh", "-ec", script], capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""


def test_nothing_is_refused_on_a_host_that_is_free() -> None:
    assert refused_in_a_network_of_its_own("") == ""


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        ("ip link add slidingserve0 type veth", "interface slidingserve0 exists"),
        (
            "ip route add 10.96.7.0/24 dev lo",
            "the host routes 10.96.7.0/24 to lo, and the cluster needs 10.96",
        ),
        ("ip address add 10.244.0.9/32 dev lo", "the host routes 10.244.0.9 to lo"),
        ("iptables -t nat -N KUBE-SERVICES", "iptables-save shows KUBE-SERVICES chains"),
        ("ip6tables -t nat -N KUBE-SERVICES", "ip6tables-save shows KUBE-SERVICES chains"),
        (
            "cp $(command -v sleep) $D/kubelet; $D/kubelet 30 & trap 'kill $!' EXIT",
            "a kubelet runs on this host",
        ),
    ],
)
def test_what_is_not_ours_is_a_reason_to_refuse(setup: str, reason: str, tmp_path: Path) -> None:
    said = refused_in_a_network_of_its_own(setup.replace("$D", str(tmp_path)))
    assert reason in said
    assert "nothing was started" in said


def test_a_refused_up_starts_nothing(spare: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "kubelets", lambda: ["a kubelet runs on this host (pid 1)"])
    with pytest.raises(ClusterError, match="a kubelet runs on this host"):
        spare.up()
    assert set(spare.status().values()) == {"down"}
    assert "slidingtest0" not in links()


def test_without_root_up_says_so(spare: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="needs root"):
        spare.up()
