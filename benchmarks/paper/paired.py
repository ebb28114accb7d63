"""The predictor as Table 5 may have tested it: fitted to half of the batches of a run, judged on the rest.

Beside the live record, in which each batch is predicted by the model then in force and the batches are those
that this very model chose. Needs every batch of a run, which the simulator's pool does not keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import as_completed

import numpy as np
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.online import Window, fit, predict_all
from slidingserve.predictor.quality import score
from slidingserve.sim.jobs import Job, Summary
from slidingserve.sim.pool import processes
from slidingserve.sim.run import run
from slidingserve.sim.store import Store


def carry_out(wanted: Sequence[Job], store: Store, workers: int) -> list[Summary]:
    """The paired errors of each run, by scene, from the store where they are there."""
    missing = {key: job for job in wanted if store.get(key := _key(job)) is None}
    if missing:
        with processes(min(workers, len(missing))) as pool:
            keys = {pool.submit(paired, job): key for key, job in missing.items()}
            for done in as_completed(keys):
                store.put(keys[done], done.result())
    return [summary for job in wanted if (summary := store.get(_key(job))) is not None]


def paired(job: Job) -> Summary:
    """Fit to the batches with even numbers, errors on those with odd ones, by scene and overall."""
    steps = run(job.trace, job.ttft, job.tbt, job.config, job.seed, steps=True).steps
    if steps is None:
        raise RuntimeError("the run kept no batches")
    even = np.arange(len(steps)) % 2 == 0
    learn, test = (
        Window(steps.scene[rows], steps.features[rows], steps.seconds[rows], np.ones(int(rows.sum())))
        for rows in (even, ~even)
    )
    learning = job.config.predictor
    model = fit(learn, default_model("cuda"), learning.method, learning.expert_samples)
    if model is None:
        return {}
    quality = score(predict_all(model, test), test.seconds, test.scene)
    return {scene: one._asdict() for scene, one in quality.items()}


def _key(job: Job) -> str:
    return f"paired-{job.key}"
