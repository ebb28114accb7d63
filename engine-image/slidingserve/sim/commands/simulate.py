"""`slidingserve simulate`: one run, its attainment on the terminal, everything else in files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from slidingserve import policies
from slidingserve.command_line import flat
from slidingserve.sim import metrics, output
from slidingserve.sim import options as o
from slidingserve.sim.commands.policy import engine_of
from slidingserve.sim.progress import waiting
from slidingserve.sim.run import run
from slidingserve.workloads.options import FileOptions, LoadOptions, Qps

EPILOG = o.NAMES
_COLUMNS = {
    "class": "class",
    "requests": "requests",
    "attainment_percent": "kept %",
    "missed_ttft": "TTFT missed",
    "missed_tbt": "TBT missed",
    "ttft_p50_s": "TTFT p50 s",
    "ttft_p99_s": "p99 s",
    "tbt_p99_s": "TBT p99 s",
}


@flat
def simulate_command(
    *,
    load: LoadOptions,
    qps: Qps = None,
    policy: o.PolicyOption = policies.DEFAULT_POLICY,
    engine: o.EngineOptions,
    files: FileOptions,
    output_file: o.OutputOption = None,
    csv: Annotated[
        Path | None, o.results_option(metavar="FILE.csv", help="Write every request as CSV.")
    ] = None,
    steps: Annotated[
        Path | None, o.results_option(metavar="FILE.csv", help="Write every batch as CSV.")
    ] = None,
) -> None:
    """Run a workload once on a simulated engine and say which promises were kept.

    slidingserve simulate --workload mixed_v1 --qps 1.5

    slidingserve simulate --qps 1.5 --policy sarathi_edf:budget=256

    slidingserve simulate --workload my.csv --slo chat=500ms/40ms --csv out.csv
    """
    with output.said_in_one_line("simulate"):
        output.check_writable(output_file, csv, steps)
        config = engine_of(policy, engine.config())
        source = o.source(load, files)
        seed = load.seed
        source.say_notes(qps)
        job = source.job(config, qps, seed)
        with waiting():
            result = run(job.trace, job.ttft, job.tbt, config, seed, steps=steps is not None)
        summary = metrics.summary(result)
        rate = f"{job.trace.qps:.3g} requests/s" if math.isfinite(job.trace.qps) else "all at once"
        title = f"{policy} on {config.hardware.title}, {load.workload}, {rate}"
        _show(title, summary)
        if output_file is not None:
            about = {"policy": policy, "hardware": engine.hardware, "workload": load.workload}
            output.write_json(output_file, {**about, "qps": job.trace.qps, "seed": seed, **summary})
        if csv is not None:
            output.write_csv(csv, output.request_rows(result))
        if steps is not None and result.steps is not None:
            output.write_csv(steps, output.step_rows(result.steps))


def _show(title: str, summary: dict[str, Any]) -> None:
    console = Console(highlight=False)
    groups = [*summary["classes"].items(), ("all", summary["overall"])]
    rows = [
        {"class": name, **group, "attainment_percent": 100 * group["attainment"]} for name, group in groups
    ]
    output.show(console, title, rows, _COLUMNS)
    overall = summary["predictor"]["overall"]
    console.print(
        f"{summary['iterations']} batches in {summary['seconds']:.0f} simulated seconds, "
        f"{summary['preemptions']} preemptions, {100 * summary['prefix_hit_share']:.0f} % prefix hits; "
        f"predictor off by {1000 * overall['mae_s']:.2f} ms on average (R2 {overall['r2']:.4f})"
    )
