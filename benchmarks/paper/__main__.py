"""`make bench-paper`: the paper's Figures 4, 5, 6 and Tables 4, 5, and what explains the differences.

QUICK=1: a few minutes, shapes only. ONLY=figure4,table5: a part. REQUESTS=500: shorter runs. PROCESSES=1.
Stop it at any time: it goes on where it was. Writes build/bench-paper (build/bench-paper-quick).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from slidingserve.command_line import interruptible, status_of
from slidingserve.report import paper
from slidingserve.report.rows import ReportError
from slidingserve.sim.config import SimError
from slidingserve.sim.output import out_of_memory
from slidingserve.sim.store import Store

from benchmarks.paper import output, plan
from benchmarks.paper.experiments import Experiment, Fidelity, Search, Where
from benchmarks.paper.measurements import Asked, Measurement, asked, choose
from benchmarks.paper.plan import Scale
from benchmarks.paper.runner import Runner, Start

BUILD = Path(__file__).resolve().parent.parent.parent / "build"
DRAW_SECONDS = 300.0
"""The report is drawn anew at most so often while measurements go on."""
FIGURES = ("figure4", "figure5", "figure6", "table4", "table5", "readings", "slo_base", "explain")


class SettingError(Exception):
    """A setting from outside that cannot be used; the message is one line."""


def main() -> int:
    """Choose settings, measure everything, write the results."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    if len(sys.argv) > 1:
        wrong = sys.argv[1] not in ("--help", "-h")
        console.print(f"bench-paper: {sys.argv[1]}: takes no arguments" if wrong else (__doc__ or "").strip())
        return 2 if wrong else 0
    try:
        scale, only, processes = _settings(dict(os.environ))
    except SettingError as error:
        console.print(f"bench-paper: {error}")
        return 2
    out = BUILD / ("bench-paper-quick" if scale.quick else "bench-paper")
    try:
        with interruptible():
            runner = Runner(Store(out / "runs"), processes, console)
            drawn = monotonic()
            for done, made in measured(scale, only, runner):
                document = output.document(made, scale, complete=done)
                output.write(document, out)
                if done or monotonic() - drawn > DRAW_SECONDS:
                    left_out, drawn = output.report(document, out), monotonic()
    except KeyboardInterrupt as error:
        console.print("bench-paper: stopped; the same command goes on where it was")
        return status_of(error)
    except (MemoryError, BrokenProcessPool) as error:
        console.print(
            f"bench-paper: {out_of_memory(error)}; the same command goes on where it was; give PROCESSES=1"
        )
        return 1
    except (SimError, ReportError) as error:
        console.print(f"bench-paper: {error}")
        return 1
    except OSError as error:
        console.print(f"bench-paper: {out}: cannot be written ({error.strerror}); make room and go on")
        return 1
    for name in left_out:
        console.print(f"{name}: left out of the report, no rows")
    console.print(f"wrote results.json, results.csv, table.md and report/index.html below {out}")
    return 0


Rows = list[dict[str, Any]]


def measured(scale: Scale, only: tuple[str, ...], runner: Runner) -> Iterator[tuple[bool, Rows]]:
    """Rows after each part, and whether they are all: what is there can be looked at while the rest runs.

    A model's settings are chosen before anything of it is measured; everything is measured with chosen ones.
    """
    needed = [experiment for experiment in plan.experiments(scale) if experiment.figure in only]
    choosing = _choosing(scale, needed)
    proxies = [one for experiment in needed for one in asked(experiment, {}, scale)]
    runner.expect(one.measurement for one in (*choosing, *proxies))
    done: list[Asked] = []
    for (figure, model, criterion), part in (parts := _parts(needed)).items():
        chooses = any(not isinstance(one, Fidelity) for one in part)
        like = (model, criterion) if chooses else None
        candidates = [one for one in choosing if (one.label["model"], one.label["criterion"]) == like]
        how = ", in every class" if criterion == "per_class" else ""
        group = [one.measurement for one in candidates]
        runner.measure(f"settings, {model}{how}", group, lambda one: _printed(one.where))
        chosen = choose((one, _goodput(runner, one.measurement)) for one in candidates)
        reported = [one for experiment in part for one in asked(experiment, chosen, scale)]
        group = [one.measurement for one in reported]
        runner.measure(f"{figure}, {model}{how}", group, _from(_hints(runner, candidates)))
        done += [*(one for one in candidates if one not in done), *reported]
        rows = output.rows((one, runner.metrics(one.measurement)) for one in done)
        yield (figure, model, criterion) == list(parts)[-1], rows


def _parts(needed: list[Experiment]) -> dict[tuple[str, str, str], list[Experiment]]:
    """By figure, model and criterion, in the plan's order; runs of one part are there for the others."""
    parts: dict[tuple[str, str, str], list[Experiment]] = {}
    for one in needed:
        criterion = one.criterion if isinstance(one, Search) else "overall"
        parts.setdefault((one.figure, one.where.model, criterion), []).append(one)
    return parts


def _choosing(scale: Scale, needed: list[Experiment]) -> list[Asked]:
    """Settings to compare for the models and workloads that are needed."""
    places = {(experiment.where.model, experiment.where.workload) for experiment in needed}
    return [
        one
        for search in plan.choices(scale)
        if (search.where.model, search.where.workload) in places
        for one in asked(search, {}, scale)
    ]


def _goodput(runner: Runner, measurement: Measurement) -> float:
    return float(runner.metrics(measurement)[0]["value"])


def _cell(measurement: Measurement) -> tuple[str, str, str]:
    return measurement.where.model, measurement.where.workload, measurement.policy


def _from(hints: dict[tuple[str, str, str], float]) -> Start:
    return lambda one: hints.get(_cell(one))


def _hints(runner: Runner, choosing: list[Asked]) -> dict[tuple[str, str, str], float]:
    """The best goodput of the choosing by model, workload and policy: where later searches start."""
    hints: dict[tuple[str, str, str], float] = {}
    for one in choosing:
        key = _cell(one.measurement)
        hints[key] = max(hints.get(key, 0.0), _goodput(runner, one.measurement))
    return hints


def _printed(where: Where) -> float | None:
    """The paper's goodput of Sarathi-EDF."""
    return paper.figure4(where.model, where.workload, "sarathi_edf")


def _settings(environment: dict[str, str]) -> tuple[Scale, tuple[str, ...], int]:
    """QUICK, ONLY, REQUESTS and PROCESSES. Raises SettingError."""
    scale = plan.QUICK if environment.get("QUICK", "") not in ("", "0") else plan.FULL
    only = tuple(filter(None, environment.get("ONLY", "").split(","))) or FIGURES
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise SettingError(f"ONLY={','.join(unknown)} is none of {', '.join(FIGURES)}")
    requests = _count(environment, "REQUESTS", 100, scale.requests)
    scale = replace(scale, requests=requests, choice_requests=requests // 2)
    return scale, only, _count(environment, "PROCESSES", 1, 2)


def _count(environment: dict[str, str], name: str, least: int, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or int(text) < least:
        raise SettingError(f"{name}={text} is no count; give {least} or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
