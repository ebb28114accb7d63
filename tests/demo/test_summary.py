"""The demo's arithmetic, without a cluster: counters, rows, the sentence at the end, what is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slidingserve.bench.client import Result

from tests.cluster.cache import ClusterError
from tests.cluster.config import numbered
from tests.cluster.current import CurrentContext
from tests.demo import install, leftovers, summary
from tests.demo.compare import busy
from tests.demo.engine import Kept, kept_by_class, unfinished
from tests.demo.install import EXAMPLE
from tests.demo.kube import load, until
from tests.demo.load import BLOCKS, OURS, STOCK

EXPOSITION = """\
# TYPE slidingserve_slo_good_total counter
slidingserve_slo_good_total{slo_class="dialogue",objective="request"} 7.0
slidingserve_slo_good_total{slo_class="dialogue",objective="ttft"} 9.0
# TYPE slidingserve_slo_violations_total counter
slidingserve_slo_violations_total{slo_class="dialogue",objective="request"} 3.0
slidingserve_slo_violations_total{slo_class="quiet",objective="request"} 0.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 1.0
"""


def rows(good: int, policy: str = OURS) -> list[summary.Row]:
    results = [Result(n, "dialogue", 0, 5, 2, token_times=[0.1, 0.2]) for n in range(10)]
    return summary.rows(policy, {"dialogue": Kept(10, good), "quiet": Kept()}, results)


def test_only_the_objective_of_whole_requests_is_counted() -> None:
    assert kept_by_class(EXPOSITION) == {"dialogue": Kept(10, 7), "quiet": Kept(0, 0)}
    assert unfinished(EXPOSITION) == 3


def test_the_summary_has_exactly_the_promised_fields() -> None:
    (row,) = json.loads(json.dumps(summary.document(rows(7))))["rows"]
    assert set(row) == {"policy", "slo_class", "requests", "good", "attainment", "ttft_ms", "tbt_ms"}
    assert set(row["ttft_ms"]) == set(row["tbt_ms"]) == {"p50", "p95", "p99"}
    assert (row["requests"], row["good"], row["attainment"]) == (10, 7, 0.7)


@pytest.mark.parametrize(
    ("ours", "word"), [(8, ": more than"), (5, ": NOT more than"), (6, ": NOT more than")]
)
def test_the_verdict_is_honest_whichever_way_it_went(ours: int, word: str) -> None:
    assert word in summary.verdict([*rows(6, STOCK), *rows(ours)])


def test_both_policies_meet_the_same_requests_and_each_goes_first_once() -> None:
    mine, stock = ([load for policy, load in BLOCKS if policy == name] for name in (OURS, STOCK))
    assert sorted(load.seed for load in mine) == sorted(load.seed for load in stock)
    assert sum(load.requests for load in mine) >= 100
    assert {item.slo_class for load in mine for item in load.items()} == {"dialogue", "summarization"}
    firsts = [policy for policy, _ in BLOCKS[::2]]
    assert sorted(firsts) == sorted((STOCK, OURS))


def test_the_load_s_classes_are_those_of_the_example() -> None:
    resource = load(EXAMPLE)[0]
    assert {slo["name"] for slo in resource["spec"]["sloClasses"]} == {"dialogue", "summarization"}
    assert summary.promises(resource).count("first token within") == 2


def test_a_wait_that_ends_in_nothing_names_what_did_not_come() -> None:
    with pytest.raises(TimeoutError, match=r"not within 0 s: a miracle \(last seen: 0\)"):
        until(lambda: 0, "a miracle", 0)


def test_what_is_left_is_found_on_the_machine_itself() -> None:
    mine = str(Path("/proc/self/exe").readlink().parent)
    assert leftovers.processes(mine) != []
    assert leftovers.processes("/nowhere") == []
    root = Path("/proc/self/mounts").read_text().splitlines()[0].split()[1]
    assert leftovers.mounts(root) != []
    assert leftovers.mounts("/nowhere") == []


def test_what_another_cluster_beside_it_has_is_not_left_behind(tmp_path: Path) -> None:
    for path in ("slidingserve0", "slidingserve10", "cpu/slidingserve", "cpu/slidingserve1"):
        (tmp_path / path).mkdir(parents=True)
    for number, mine in ((0, "slidingserve"), (1, "slidingserve1"), (2, None)):
        place = numbered(number)
        links = [line for line in leftovers.network(place, tmp_path) if "interface" in line]
        assert links == ([f"interface {mine}0"] if mine else [])
        assert leftovers.cgroups(place, tmp_path) == ([f"cgroup {tmp_path}/cpu/{mine}"] if mine else [])


def test_a_directory_whose_name_only_begins_alike_is_another_clusters() -> None:
    whole = str(Path("/proc/self/exe").readlink().parent)
    assert leftovers.processes(whole[:-1]) == []
    point = next(point for point in _mount_points() if len(point) > 2)
    assert f"mount {point}" in leftovers.mounts(point)
    assert f"mount {point}" not in leftovers.mounts(point[:-1])


def _mount_points() -> list[str]:
    return [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]


def test_resources_of_somebody_else_keep_the_operator_and_its_crd(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Theirs(CurrentContext):
        def __init__(self) -> None:
            pass

        def kubectl(
            self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 120
        ) -> str:
            calls.append(arguments[0])
            return "production/chat "

    monkeypatch.setattr(install, "helm", lambda *arguments: calls.append("helm"))
    with pytest.raises(ClusterError, match="production/chat would go with them"):
        install.uninstall_chart(Theirs())
    assert set(calls) == {"get"}


def test_a_busy_machine_is_named_as_the_likely_reason_of_a_failed_request() -> None:
    assert busy(14.5, 2) == "This machine is busy (load 14 on 2 cores): try again when it is quiet."
    assert busy(1.5, 2) == ""
