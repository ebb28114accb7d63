"""Rows for whoever tunes the scheduler: batches, predictor, configuration. Data only, as `slo.py`."""

from __future__ import annotations

from dashboards.panels import Panel, Query, Row
from dashboards.promql import BY_CLASS, SERVER, changes, level, mean, per_second, quantile, select

SCHEDULER = Row(
    "The scheduler",
    (
        Panel(
            "Chunk size",
            """Prefill tokens in a batch, over the SLOServes chosen above. Small chunks protect running
            streams (tight tbt), large ones finish prompts sooner. Pinned at chunk.minTokens: decodes leave no
            room, the engine is at its limit.""",
            "short",
            (Query(per_second(select("slidingserve_chunk_tokens_bucket"), "le"), "{{le}}"),),
            kind="heat",
        ),
        Panel(
            "Tokens in a batch",
            """All tokens of a batch, prefill and decode, by SLOServe. At max_num_batched_tokens the engine is
            full; far below it with a queue, deadlines hold the batch small.""",
            "short",
            tuple(
                Query(quantile(q, "slidingserve_batch_tokens", *SERVER), f"{{{{sloserve}}}} p{q * 100:g}")
                for q in (0.5, 0.95)
            ),
        ),
        Panel(
            "Requests in the engine",
            """Requests by phase: waiting for admission, in prefill, in decode. A waiting line that does not
            drain is overload: add replicas. See also the violations above.""",
            "short",
            (
                Query(
                    level("sum", select("slidingserve_queue_requests"), *SERVER, "phase"),
                    "{{sloserve}} {{phase}}",
                ),
            ),
        ),
        Panel(
            "Alpha in force",
            """The urgency above which a request is urgent, by engine. After `kubectl edit` every line must
            reach the new value within seconds; one that does not is named in the resource's ConfigApplied
            condition.""",
            "none",
            (
                Query(
                    level("max", select("slidingserve_alpha"), *SERVER, "pod", "engine"),
                    "{{pod}} / {{engine}}",
                ),
            ),
        ),
        Panel(
            "Plans by branch",
            """How batches were planned: chunker (deadlines bound the chunk), constructor (nothing fits, the
            most is saved), fixed (a policy with a fixed budget), stock (vLLM's order by request), fallback (a
            plan failed; see planner errors).""",
            "ops",
            (
                Query(
                    per_second(select("slidingserve_plans_total"), *SERVER, "branch"),
                    "{{sloserve}} {{branch}}",
                ),
            ),
        ),
        Panel(
            "Planning time",
            """What one plan costs the engine, p99. It runs before every batch: above a tenth of the batch
            time it eats throughput; lower max-num-seqs or report it.""",
            "s",
            (
                Query(
                    quantile(0.99, "slidingserve_plan_seconds", *SERVER, "policy"), "{{sloserve}} {{policy}}"
                ),
            ),
        ),
    ),
)

PREDICTOR = Row(
    "The latency predictor",
    (
        Panel(
            "Batch time: predicted and measured",
            """Mean time of a batch by scene, measured (solid) and predicted (dashed). Lines that part: the
            predictor does not know this load yet; it relearns every predictor.refreshSeconds.""",
            "s",
            (
                Query(mean("slidingserve_batch_seconds", *SERVER, "scene"), "{{sloserve}} {{scene}}"),
                Query(
                    mean("slidingserve_predicted_batch_seconds", *SERVER, "scene"),
                    "{{sloserve}} {{scene}} predicted",
                    dashed=True,
                ),
            ),
            width=12,
        ),
        Panel(
            "Prediction error",
            """Measured less predicted time of a batch, p5 to p95 by scene. Above 0 batches take longer than
            planned and deadlines are missed; lower predictor.refreshSeconds if it follows the load too
            slowly.""",
            "s",
            tuple(
                Query(
                    quantile(q, "slidingserve_predictor_error_seconds", *SERVER, "scene"),
                    f"{{{{sloserve}}}} {{{{scene}}}} p{q * 100:g}",
                )
                for q in (0.05, 0.5, 0.95)
            ),
            width=12,
            signed=True,
        ),
        Panel(
            "Absolute error, p95",
            """Size of the error by scene. Compare with the tbt target: a tenth of it costs little.""",
            "s",
            (
                Query(
                    quantile(0.95, "slidingserve_predictor_abs_error_seconds", *SERVER, "scene"),
                    "{{sloserve}} {{scene}}",
                ),
            ),
        ),
        Panel(
            "Fit (r²) of the lowest engine",
            """How much of the variation in batch time the fit explains, lowest engine by scene. Below 0.5
            with enough samples: something else shares the device, or the load varies too little to tell.""",
            "none",
            (
                Query(
                    level("min", select("slidingserve_predictor_r2"), *SERVER, "scene"),
                    "{{sloserve}} {{scene}}",
                ),
            ),
            signed=True,
            top=1,
        ),
        Panel(
            "Age of the fit",
            """Time since an engine last refreshed its predictor. It rises on an idle engine. Above
            refreshSeconds under load: refreshing fails, see the engine's log.""",
            "s",
            (
                Query(
                    level("max", select("slidingserve_predictor_age_seconds"), *SERVER, "pod", "engine"),
                    "{{pod}} / {{engine}}",
                ),
            ),
        ),
    ),
)

CONFIGURATION = Row(
    "Configuration and faults",
    (
        Panel(
            "Configuration generation in force",
            """The lowest generation over a pod's processes. Pods of one SLOServe must agree seconds after an
            edit; one that lags holds ConfigApplied=False.""",
            "none",
            (Query(level("min", select("slidingserve_config_generation"), *SERVER, "pod"), "{{pod}}"),),
        ),
        Panel(
            "Configuration reloads",
            """Reloads by result. A rejected one leaves the last good settings in force; the reason is in
            ConfigApplied's message and in GET /slidingserve/v1/state.""",
            "short",
            (
                Query(
                    changes(select("slidingserve_config_reloads_total"), *SERVER, "result"),
                    "{{sloserve}} {{result}}",
                ),
            ),
        ),
        Panel(
            "Faults",
            """Planner errors (a batch then runs in vLLM's order), engines that run the stock scheduler
            (fallback), clients that hung up, and requests with a limit of 0 or of more than a day. All
            should be 0, hang-ups low; see the engine's log for the first two.""",
            "short",
            (
                Query(
                    changes(select("slidingserve_planner_errors_total"), *SERVER),
                    "{{sloserve}} planner errors",
                ),
                Query(
                    level("sum", select("slidingserve_fallback"), *SERVER),
                    "{{sloserve}} engines in fallback",
                ),
                Query(
                    changes(select("slidingserve_client_disconnects_total", BY_CLASS), *SERVER),
                    "{{sloserve}} client disconnects",
                ),
                Query(
                    changes(select("slidingserve_deadlines_clamped_total", BY_CLASS), *SERVER),
                    "{{sloserve}} deadlines clamped",
                ),
            ),
        ),
    ),
)
