from __future__ import annotations

import numpy as np
import pytest
from slidingserve import workloads
from slidingserve.workloads import Trace, WorkloadError
from slidingserve.workloads.arrivals import Switching, plan_times
from slidingserve.workloads.reweight import TABLE_2
from slidingserve.workloads.stored import stored

RECORDED = {
    "azure_code_2023": 8819,
    "azure_conv_2023": 19366,
    "mooncake": 12031,
    "mooncake_synthetic": 3993,
}


@pytest.mark.parametrize("name", TABLE_2)
def test_mean_and_p90_of_the_sets_are_those_of_table_2(name: str) -> None:
    wanted, found = TABLE_2[name], stored(name)
    pairs = (
        (wanted.prompt_mean, np.mean(found.prompt_tokens)),
        (wanted.prompt_p90, np.percentile(found.prompt_tokens, 90)),
        (wanted.output_mean, np.mean(found.output_tokens)),
        (wanted.output_p90, np.percentile(found.output_tokens, 90)),
    )
    for paper, ours in pairs:
        assert ours == pytest.approx(paper, rel=0.03)


@pytest.mark.parametrize("name", TABLE_2)
def test_what_is_drawn_has_the_statistics_of_its_set(name: str) -> None:
    trace = workloads.get(name, requests=50_000, qps=1.0, seed=3)
    assert np.mean(trace.prompt_tokens) == pytest.approx(TABLE_2[name].prompt_mean, rel=0.03)
    assert np.mean(trace.output_tokens) == pytest.approx(TABLE_2[name].output_mean, rel=0.03)


@pytest.mark.parametrize("name", workloads.names())
def test_the_same_seed_gives_the_same_trace_and_another_seed_another(name: str) -> None:
    one, again, other = (workloads.get(name, requests=300, qps=2.0, seed=seed) for seed in (1, 1, 2))
    assert one.digest() == again.digest() != other.digest()
    assert len(one) == 300


@pytest.mark.parametrize("name", workloads.names())
def test_another_rate_moves_the_requests_along_the_time_axis_and_changes_nothing_else(name: str) -> None:
    slow, fast = (
        workloads.get(name, requests=500, qps=qps, seed=7, arrivals="poisson") for qps in (1.0, 2.5)
    )
    np.testing.assert_allclose(slow.arrival, fast.arrival * 2.5, rtol=1e-12)
    for field in ("prompt_tokens", "output_tokens", "slo_class", "prefix_ids"):
        np.testing.assert_array_equal(getattr(slow, field), getattr(fast, field))


@pytest.mark.parametrize(("name", "share"), [("mixed_v1", 3 / 4), ("mixed_v2", 5 / 6)])
def test_mixes_have_their_ratio_and_each_class_its_own_lengths(name: str, share: float) -> None:
    trace = workloads.get(name, requests=20_000, qps=1.0)
    dialogue = trace.slo_class == 0
    assert np.mean(dialogue) == pytest.approx(share, abs=0.01)
    assert trace.prompt_tokens[dialogue].max() <= stored("sharegpt").prompt_tokens.max()
    assert trace.prompt_tokens[~dialogue].min() >= 1500


def test_a_longer_trace_starts_with_the_shorter_one() -> None:
    short, long = (workloads.get("mixed_v1", requests=n, qps=1.0, seed=4) for n in (100, 1000))
    assert long.select(np.arange(1000) < 100).digest() == short.digest()


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(workloads.get("sharegpt", requests=20_000, qps=4.0).arrival)
    assert np.mean(gaps) == pytest.approx(0.25, rel=0.03)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(("name", "rows"), RECORDED.items())
def test_recorded_traces_keep_their_own_arrivals_scaled_to_the_rate(name: str, rows: int) -> None:
    native = workloads.get(name, requests=None, arrivals="trace")
    scaled = workloads.get(name, requests=None, arrivals="trace", qps=3.0)
    assert len(native) == rows
    assert scaled.arrival[-1] == pytest.approx((rows - 1) / 3.0)
    factor = native.arrival[-1] / scaled.arrival[-1]
    np.testing.assert_allclose(scaled.arrival * factor, native.arrival, rtol=1e-9, atol=1e-6)


def test_azure_times_keep_seven_digits() -> None:
    native = workloads.get("azure_code_2023", requests=None, arrivals="trace")
    np.testing.assert_allclose(native.arrival[:3], [0.0, 0.052, 0.098189], atol=1e-9)


def test_traces_without_classes_take_prompts_from_2000_tokens_as_summaries() -> None:
    trace = workloads.get("azure_code_2023", requests=None, arrivals="trace")
    np.testing.assert_array_equal(trace.slo_class == 1, trace.prompt_tokens >= 2000)


def test_mooncake_requests_share_prefixes_of_full_blocks() -> None:
    trace = workloads.get("mooncake", requests=None, arrivals="trace")
    assert trace.prefix_block == 512
    np.testing.assert_array_equal(np.diff(trace.prefix_offsets), trace.prompt_tokens // 512)
    first = trace.prefix_ids[trace.prefix_offsets[:-1]]
    assert len(np.unique(first)) < len(trace) / 4, "most requests begin alike"


def test_prefix_ids_of_a_selection_stay_with_their_requests() -> None:
    trace = workloads.get("mooncake", requests=200, qps=1.0)
    wanted = trace.prompt_tokens < 8000
    chosen = trace.select(wanted)
    for new, old in enumerate(np.flatnonzero(wanted)):
        before = trace.prefix_ids[trace.prefix_offsets[old] : trace.prefix_offsets[old + 1]]
        after = chosen.prefix_ids[chosen.prefix_offsets[new] : chosen.prefix_offsets[new + 1]]
        np.testing.assert_array_equal(before, after)


def test_switching_arrivals_alternate_between_low_and_high_for_twenty_minutes() -> None:
    counts = np.zeros(10)
    for seed in range(40):
        trace = workloads.get("mixed_v1", requests=None, arrivals="switching", seed=seed)
        counts += np.histogram(trace.arrival, bins=10, range=(0, 1200))[0]
    rates = counts / 40 / 120
    np.testing.assert_allclose(rates[0::2], 1.0, rtol=0.1)
    np.testing.assert_allclose(rates[1::2], 2.5, rtol=0.1)


def test_switching_can_be_asked_for_by_requests_and_scaled_by_rate() -> None:
    one = workloads.get("mixed_v1", requests=100, arrivals="switching", qps=3.5)
    two = workloads.get("mixed_v1", requests=100, arrivals="switching", switch=Switching(2.0, 5.0))
    assert len(one) == 100
    assert one.digest() == two.digest()


def test_plan_times_invert_the_expected_count() -> None:
    plan = Switching(1.0, 2.5, 120.0)
    times = plan_times(np.array([60.0, 120.0, 120.0 + 250.0, 420.0, 430.0]), plan)
    np.testing.assert_allclose(times, [60.0, 120.0, 220.0, 240.0, 250.0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "nosuch"}, "nosuch"),
        ({"name": "sharegpt", "qps": 0.0}, "qps"),
        ({"name": "sharegpt", "qps": float("nan")}, "qps"),
        ({"name": "sharegpt"}, "qps"),
        ({"name": "sharegpt", "qps": 1.0, "requests": 0}, "requests 0"),
        ({"name": "sharegpt", "qps": 1.0, "requests": None}, "requests"),
        ({"name": "sharegpt", "qps": 1.0, "arrivals": "trace"}, "none of its own"),
        ({"name": "sharegpt", "qps": 1.0, "arrivals": "bursts"}, "bursts"),
        ({"name": "sharegpt", "qps": 1.0, "seed": -1}, "seed"),
        ({"name": "azure_code_2023", "qps": 1.0, "requests": 10_000}, "holds 8819"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        workloads.get(**arguments)  # type: ignore[arg-type]


def test_arrays_that_contradict_each_other_are_no_trace() -> None:
    ones = np.ones(2, dtype=np.int64)
    zeros = np.zeros(2, dtype=np.int64)
    Trace(np.zeros(2), ones, ones, zeros)
    for wrong in (
        (np.array([1.0, 0.0]), ones, ones, zeros),
        (np.zeros(2), zeros, ones, zeros),
        (np.zeros(2), ones, zeros, zeros),
        (np.zeros(2), ones, ones, ones * 2),
        (np.zeros(3), ones, ones, zeros),
        (np.zeros(2, dtype=np.float32), ones, ones, zeros),
    ):
        with pytest.raises(WorkloadError):
            Trace(*wrong)
