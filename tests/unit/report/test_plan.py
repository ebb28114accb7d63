"""The plan of `make bench-paper` has every figure, table, policy and setting that the evaluation promises."""

from __future__ import annotations

from dataclasses import fields
from itertools import product

import pytest
from slidingserve.policies import PolicySettings
from slidingserve.report import paper

from benchmarks.paper import measurements, plan
from benchmarks.paper.experiments import Fidelity, Load, Search
from benchmarks.paper.options import ABLATIONS, POLICIES, READINGS, SETTINGS, SLIDING, options

FULL = plan.experiments(plan.FULL)
SEARCHES = [one for one in FULL if isinstance(one, Search)]
LOADS = [one for one in FULL if isinstance(one, Load)]
FIDELITIES = [one for one in FULL if isinstance(one, Fidelity)]


def seeds(experiment: Search | Load | Fidelity) -> set[int]:
    return {seed for seed, _ in experiment.draws}


def fits(experiment: Search | Load | Fidelity) -> set[int | None]:
    return {fit for _, fit in experiment.draws}


def test_figure_4_has_both_models_five_workloads_all_policies_and_both_criteria() -> None:
    found = {
        (one.where.model, one.where.workload, one.policy, one.criterion)
        for one in SEARCHES
        if one.figure == "figure4"
    }
    assert found == {
        (model, workload, policy, criterion)
        for model in (paper.QWEN, paper.LLAMA)
        for workload in paper.WORKLOADS
        for policy in ("fcfs", "ppas", "sarathi_edf", "qoserve", "slidingserve_paper")
        for criterion in ("overall", "per_class")
    }


def test_figure_4_has_three_seeds_and_five_fits_of_the_papers_predictor() -> None:
    for one in SEARCHES:
        if one.figure == "figure4":
            assert len(seeds(one)) >= 3
            assert len(fits(one)) >= 5 if one.policy == SLIDING else True
            assert one.where.hardware == f"rtx3090-tp2-{one.where.model}"


def test_no_seed_or_fit_that_settings_were_chosen_on_is_reported() -> None:
    choosing = plan.choices(plan.FULL)
    assert {seed for one in choosing for seed in seeds(one)} == {plan.CHOICE_SEED}
    assert plan.CHOICE_SEED not in {seed for one in FULL for seed in seeds(one)}
    assert not set(plan.CHOICE_FITS) & {fit for one in FULL for fit in fits(one)}


def test_every_policy_chooses_among_the_settings_that_the_evaluation_promises() -> None:
    chosen = {
        policy: {one.setting for one in plan.choices(plan.FULL) if one.policy == policy}
        for policy in POLICIES
    }
    assert chosen["fcfs"] >= {options(budget=budget) for budget in (2048, 512, 256)}
    assert chosen["sarathi_edf"] >= {options(budget=budget) for budget in (128, 256, 512)}
    for alpha, cap in product((0.8, 0.4), (None, 512, 256)):
        for grid in ("artifact", "rescaled"):
            assert options(grid=grid, budget=cap, alpha=alpha) in chosen["qoserve"]
        for margin in (1.15, 1.3):
            assert options(margin=margin, max_chunk=cap, alpha=alpha) in chosen[SLIDING]
    assert len(chosen["ppas"]) >= 2


def test_all_options_are_options_of_the_policies_or_of_the_predictor() -> None:
    known = {field.name for field in fields(PolicySettings)} | {"method", "refresh_seconds", "oracle"}
    tried = [one for settings in SETTINGS.values() for one in settings]
    tried += [*ABLATIONS.values(), *READINGS.values(), *(one.change for one in FULL)]
    assert {name for one in tried for name, _ in one} <= known


def test_figure_5_goes_from_below_the_papers_goodput_to_twice_it_on_five_workloads() -> None:
    found = [one for one in LOADS if one.figure == "figure5"]
    assert {one.where.workload for one in found} == set(paper.WORKLOADS)
    assert {one.policy for one in found} == set(POLICIES)
    rates = sorted({one.qps for one in found if one.where.workload == "mixed_v1" and one.qps})
    assert rates[0] < 0.7 * 1.95
    assert rates[-1] == pytest.approx(2 * 1.95)
    assert len(rates) >= 6


def test_figure_6_switches_and_has_three_seeds() -> None:
    found = [one for one in LOADS if one.figure == "figure6"]
    assert {one.policy for one in found} == set(POLICIES)
    assert all(one.qps is None and one.where.workload == "mixed_v1" and len(seeds(one)) >= 3 for one in found)


def test_table_4_has_the_four_schemes_as_goodput_and_at_three_requests_a_second() -> None:
    for kind in (SEARCHES, LOADS):
        assert {one.variant for one in kind if one.figure == "table4"} == set(paper.TABLE_4)
    assert {one.qps for one in LOADS if one.figure == "table4"} == {3.0}
    assert dict(ABLATIONS[paper.SC]) == {"sorter": "edf", "constructor": False}
    assert dict(ABLATIONS[paper.SC_MLPS]) == {"constructor": False}


def test_table_5_has_three_machines_both_fits_and_five_draws() -> None:
    assert {paper.table5(one.where.hardware) is not None for one in FIDELITIES} == {True}
    assert len({one.where.hardware for one in FIDELITIES}) == 3
    assert {dict(one.change)["method"] for one in FIDELITIES} == {"robust", "ols"}
    assert all(len(fits(one)) >= 5 for one in FIDELITIES)


def test_the_slo_base_goes_from_nothing_to_200_ms() -> None:
    bases = {one.where.slo_base_ms for one in SEARCHES if one.figure == "slo_base"}
    assert bases == {0, 20, 40, 60, 100, 200}


def test_each_reading_flips_one_option_and_the_last_flips_all() -> None:
    changes = [one.change for one in SEARCHES if one.figure == "readings"]
    single = [dict(change) for change in changes if len(change) == 1]
    printed = dict(READINGS["all readings as printed"])
    open_choices = {"window", "rest", "alpha"}
    assert printed == {
        name: value for one in single for name, value in one.items() if name not in open_choices
    }
    assert () in changes


def test_the_quick_form_has_every_figure_and_table() -> None:
    quick = plan.experiments(plan.QUICK)
    assert {one.figure for one in quick} == {"figure4", "figure5", "figure6", "table4", "table5"}
    assert {one.policy for one in quick} == set(POLICIES)


def test_equal_measurements_are_made_once() -> None:
    chosen: measurements.Choices = {}
    found = [asked for one in FULL for asked in measurements.asked(one, chosen, plan.FULL)]
    labels = {(one.label["figure"], one.label.get("variant")) for one in found}
    assert {("table4", paper.FULL), ("readings", "as chosen"), ("figure4", "")} <= labels
    assert len(measurements.unique(found)) < len(found) - 50


def test_the_best_setting_is_the_one_with_the_best_median_over_the_choosing_fits() -> None:
    lucky, steady = options(margin=1.15), options(margin=1.3)
    goodput = {(lucky, 101): 2.0, (lucky, 102): 0.3, (lucky, 103): 0.3}
    goodput |= {(steady, fit): 1.5 for fit in (101, 102, 103)}
    found = []
    for (setting, fit), value in goodput.items():
        search = Search(
            "figure4",
            plan.here(paper.QWEN, "mixed_v1"),
            SLIDING,
            "overall",
            ((100, fit),),
            setting,
            stage="choose",
        )
        found += [(job, value) for job in measurements.asked(search, {}, plan.FULL)]
    chosen = measurements.choose(found)
    assert chosen == {(paper.QWEN, "mixed_v1", SLIDING, "overall"): steady}
    then = Search(
        "figure4",
        plan.here(paper.QWEN, "mixed_v1"),
        SLIDING,
        "overall",
        ((1, 1),),
        change=options(late="paper_equation"),
    )
    (job,) = measurements.asked(then, chosen, plan.FULL)
    assert dict(job.measurement.setting) == {"margin": 1.3, "late": "paper_equation"}
