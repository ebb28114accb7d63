"""The dashboard "SlidingServe: SLO", as data: is the promise kept, and if not, why.

Rows go from the question of whoever is on call (attainment) to those of whoever tunes the scheduler
(`engine_rows.py`). Each description says what the panel means and what to do about it.
"""

from __future__ import annotations

from dashboards.engine_rows import CONFIGURATION, PREDICTOR, SCHEDULER
from dashboards.panels import Panel, Query, Row
from dashboards.promql import BY_CLASS, CLASS, level, over_range, per_second, quantile, select

UID = "slidingserve-slo"
TITLE = "SlidingServe: SLO"
DESCRIPTION = "Attainment of the declared latency promise by class, and the scheduler's own view of why."
VARIABLES = {
    "namespace": ("Namespace", "label_values(slidingserve_alpha, namespace)"),
    "sloserve": ("SLOServe", 'label_values(slidingserve_alpha{namespace=~"$namespace"}, sloserve)'),
    "slo_class": ("Class", f"label_values({select('slidingserve_slo_objective_ratio')}, slo_class)"),
}

GOOD = select("slidingserve_slo_good_total", BY_CLASS, objective="request")
BAD = select("slidingserve_slo_violations_total", BY_CLASS, objective="request")
KEPT = over_range(GOOD, *CLASS)
MISSED = over_range(BAD, *CLASS)
OBJECTIVE = level("max", select("slidingserve_slo_objective_ratio", BY_CLASS), *CLASS)
RED_AMBER_GREEN = (("red", None), ("orange", 0.95), ("green", 0.99))


def _ratio(part: str, rest: str) -> str:
    return f"{part} / ({part} + {rest})"


def _target(objective: str) -> Query:
    selector = select("slidingserve_slo_target_seconds", BY_CLASS, objective=objective)
    return Query(level("max", selector, *CLASS), "{{sloserve}} {{slo_class}} target", dashed=True)


def _latency(histogram: str, objective: str) -> tuple[Query, ...]:
    return (
        Query(quantile(0.5, histogram, *CLASS, scope=BY_CLASS), "{{sloserve}} {{slo_class}} p50"),
        Query(quantile(0.99, histogram, *CLASS, scope=BY_CLASS), "{{sloserve}} {{slo_class}} p99"),
        _target(objective),
    )


PROMISE = Row(
    "Is the promise kept?",
    (
        Panel(
            "Attainment by class",
            """Share of finished requests whose every token came by its deadline, over the time range shown.
            Below the class's objective: see which objective is missed to the right, then the queue and the
            predictor below.""",
            "percentunit",
            (Query(_ratio(KEPT, MISSED), "{{sloserve}} {{slo_class}}"),),
            kind="number",
            steps=RED_AMBER_GREEN,
            top=1,
        ),
        Panel(
            "Error budget burn rate",
            """Misses as a multiple of what the objective allows: 1 spends the budget exactly, 14 spends a
            month's in two days. Above 1 for long: add replicas, or relax the class's limits in the SLOServe
            (live, no restart).""",
            "none",
            (
                Query(
                    f"({_ratio(MISSED, KEPT)}) / (1 - {OBJECTIVE})",
                    "{{sloserve}} {{slo_class}}",
                ),
            ),
            kind="number",
            steps=(("green", None), ("orange", 1), ("red", 6)),
        ),
        Panel(
            "Requests by class",
            """Finished requests a second (solid) and those that kept every deadline (dashed). Compare with
            the rate this engine can carry; a gap that grows with the rate is overload, one that does not is a
            wrong target.""",
            "reqps",
            (
                Query(
                    per_second(select("slidingserve_requests_total", BY_CLASS), *CLASS),
                    "{{sloserve}} {{slo_class}}",
                ),
                Query(per_second(GOOD, *CLASS), "{{sloserve}} {{slo_class}} good", dashed=True),
            ),
        ),
        Panel(
            "Attainment over time",
            """Attainment within the rate interval, with the objective dashed. Dips that line up with the
            queue are load; dips that line up with predictor error are mispredicted batches.""",
            "percentunit",
            (
                Query(
                    _ratio(per_second(GOOD, *CLASS), per_second(BAD, *CLASS)), "{{sloserve}} {{slo_class}}"
                ),
                Query(OBJECTIVE, "{{sloserve}} {{slo_class}} objective", dashed=True),
            ),
            width=12,
            top=1,
        ),
        Panel(
            "Violations by objective",
            """Requests a second that missed: ttft = the first token came late, tbt = a later one did. Mostly
            ttft: prefills wait, raise alpha's effect or add replicas. Mostly tbt: chunks are too long,
            lower chunk.maxTokens.""",
            "reqps",
            (
                Query(
                    per_second(
                        f'slidingserve_slo_violations_total{{{BY_CLASS}, objective=~"ttft|tbt"}}',
                        *CLASS,
                        "objective",
                    ),
                    "{{sloserve}} {{slo_class}} {{objective}}",
                ),
            ),
            width=12,
        ),
    ),
)

LATENCY = Row(
    "What users see",
    (
        Panel(
            "Time to first token",
            """From the request's arrival at the engine to its first token. The dashed line is the class's
            target; a class with a slowdown target has none here, as its limit depends on each prompt.""",
            "s",
            _latency("slidingserve_ttft_seconds", "ttft"),
        ),
        Panel(
            "Time between tokens",
            """Gaps between tokens of a stream. A gap above the target is not yet a miss: deadlines add up, so
            early tokens buy slack for late ones.""",
            "s",
            _latency("slidingserve_tbt_seconds", "tbt"),
        ),
        Panel(
            "Slack at completion",
            """Time left to the last token's deadline when a request ended; below 0 it was late. Much slack
            everywhere: the engine can take more load. p1 near 0: it is at its limit.""",
            "s",
            tuple(
                Query(
                    quantile(q, "slidingserve_slack_at_completion_seconds", *CLASS, scope=BY_CLASS),
                    f"{{{{sloserve}}}} {{{{slo_class}}}} p{q * 100:g}",
                )
                for q in (0.01, 0.5)
            ),
            signed=True,
        ),
    ),
)

ROWS = (PROMISE, LATENCY, SCHEDULER, PREDICTOR, CONFIGURATION)
