"""The brain of one engine core: policy and settings in force, the clock, the learner, and the report of
this process.

The scheduler calls `prepare`, `scheduled` and `done` in the engine's loop; none of them raises. A daemon
thread lets the learner refit and writes this process's state file, another watches the configuration, so
all of it is in force on an idle engine too.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Any

from slidingserve.config import PredictorSettings
from slidingserve.core.columns import BRANCHES, Decision
from slidingserve.predictor.features import Features, batch_features
from slidingserve.predictor.profile import ProfileKey
from slidingserve.server import state
from slidingserve.server.live import LiveConfig, Rejected, View
from slidingserve.server.metrics import series
from slidingserve.server.runtime import Runtime, ready_mark
from slidingserve.vllm_adapter import tally
from slidingserve.vllm_adapter.clock import Batch, BatchClock
from slidingserve.vllm_adapter.force import Force, Warmth, force_of, loaded
from slidingserve.vllm_adapter.held import Table
from slidingserve.vllm_adapter.identity import Limits, core_index, engine_label
from slidingserve.vllm_adapter.learner import Learner
from slidingserve.vllm_adapter.observe import Observer
from slidingserve.vllm_adapter.step import Step

logger = logging.getLogger("vllm.slidingserve")

BEAT_SECONDS = 1.0
MOST_ERRORS_LOGGED = 100


class CoreAgent:
    """One an engine core."""

    force: Force
    """Decides the steps: one object, swapped by reference."""
    _in_force: View
    """What `force` was made of: while the latest configuration is compiled, the one before it."""

    def __init__(self, runtime: Runtime, *, index: int, engine: str, limits: Limits, key: ProfileKey) -> None:
        """`index`: of this core in its pod. `engine`: the label of its metrics."""
        self.engine = engine
        self._runtime = runtime
        self._index = index
        self._clock = BatchClock()
        self._errors: set[str] = set()
        self._reporting = threading.Lock()
        self._stop = threading.Event()
        self._planned = False
        self._serving = False
        self._compiling = ""
        """The policy that is compiled at this moment, while the one before it decides."""
        self._warmth = Warmth()
        self._stuck = False
        """vLLM could do nothing of the last plan, and nothing is in flight that could change that."""
        self.delivery = 0.0
        """Seconds from a step's end to the client, as the API servers measure it: a token must be made so
        early."""
        tally.touch_core(engine)
        self.live = LiveConfig(
            runtime.config_dir, limits.max_batch_tokens, role="core", on_change=self._changed
        )
        self.learner = Learner(engine, limits, key, runtime.profile_dir, self._predictor_settings)
        self._observer = Observer(Table(self._default_promise))
        self._put_in_force(self.live.view)
        self.report()

    def start(self) -> None:
        """Begin to watch, learn and report."""
        self._serving = True
        self.live.start()
        threading.Thread(target=self._beat, name="slidingserve-agent", daemon=True).start()

    def stop(self) -> None:
        """End both threads soon."""
        self._stop.set()
        self.live.stop()

    # --- in the engine's loop
    # -------------------------------------------------------------------------------------
    def prepare(self, scheduler: Any) -> Step:
        """Plan the next step and arrange the scheduler for it. An empty step means vLLM's own order."""
        force, step, begin = self.force, Step(), time.perf_counter()
        decision, branch = None, ""
        try:
            if self._has_work(scheduler):
                branch = "stock"
                decision = self._decide(scheduler, force, step)
            if decision is not None:
                branch = BRANCHES[decision.branch]
                series("plan_seconds", self.engine, force.policy).observe(time.perf_counter() - begin)
        except Exception as error:
            # Whatever a planner does, the engine serves on: this step is vLLM's.
            step.restore(scheduler)
            step, decision, branch = Step(), None, "fallback"
            self._failed(error)
        self._planned = decision is not None
        if decision is None:
            self._observer.stale = True
        if branch:
            series("plans", self.engine, force.policy, branch).inc()
        return step

    def _has_work(self, scheduler: Any) -> bool:
        """Whether there is anything to plan; a calibration's batches are made in vLLM's order."""
        unpaused = scheduler.pause_state.name == "UNPAUSED"
        return bool(scheduler.requests) and unpaused and not self.learner.calibrating

    def _decide(self, scheduler: Any, force: Force, step: Step) -> Decision | None:
        if force.plan is None or self._stuck:
            return None  # fcfs, or a plan that got nothing done: vLLM's order, and nothing is even looked at
        now = self._clock.idle_at(time.monotonic()) + self.delivery
        seen = self._observer.observe(scheduler, now, self.learner.throughput)
        if not seen.requests:
            return None
        decision = force.plan(seen.columns, self.learner.model.matrix, force.settings)
        self._observer.table.held.relegated[seen.table_rows] = decision.relegated
        step.apply(scheduler, seen, decision)
        return decision

    def scheduled(self, scheduler: Any, output: Any, step: Step) -> None:
        """`output` leaves for the workers: note what was really scheduled. Steps without tokens are no
        batches."""
        try:
            # For example, --watermark lets vLLM refuse a prompt that fits, and all else waits behind it.
            self._stuck = self._planned and not output.total_num_scheduled_tokens and self._clock.idle
            if output.total_num_scheduled_tokens:
                counts = output.num_scheduled_tokens
                features = step.features(counts) or really_scheduled(scheduler.requests, counts)
                predicted = self.learner.model.predict(features)
                self._clock.scheduled(Batch(output, features, predicted, time.monotonic()))
                if not self.learner.calibrating:
                    tally.count_batch(self.engine, features)
            tally.count_queues(self.engine, scheduler)
        except Exception as error:
            self._failed(error)

    def done(self, output: Any) -> None:
        """The result of a batch arrived."""
        try:
            finished = self._clock.done(output, time.monotonic())
            if finished is None:
                return
            batch, seconds = finished
            self.learner.observe(batch.features, seconds)
            if not self.learner.calibrating:
                tally.count_time(self.engine, batch, seconds)
        except Exception as error:
            self._failed(error)

    def _predictor_settings(self) -> PredictorSettings:
        return self.live.view.config.scheduler.predictor

    def _default_promise(self, prompt_tokens: int) -> tuple[float, float, bool]:
        slo = self.live.view.config.slo_class(None)
        ttft = slo.ttft_seconds(self.learner.solo.seconds(prompt_tokens))
        return ttft, slo.tbt_seconds, slo.safeguard

    def _failed(self, error: Exception) -> None:
        series("planner_errors", self.engine).inc()
        self._log_once(error, "planning failed, vLLM's own order serves this step")

    def _log_once(self, error: Exception, what: str) -> None:
        """What fails in each step, or each second, would fill a disk."""
        text = f"{what}: {type(error).__name__}: {error}"
        if text not in self._errors and len(self._errors) < MOST_ERRORS_LOGGED:
            self._errors.add(text)
            logger.error("slidingserve: %s (logged once)", what, exc_info=error)

    # --- between steps
    # --------------------------------------------------------------------------------------------
    def calibration(self, phase: str) -> bool:
        """An API server enters or leaves calibration (see `Learner.calibration`), or only asks."""
        calibrated = self.learner.calibration(phase)
        if phase == "end":
            self.report()
        return calibrated

    # --- in the threads
    # -------------------------------------------------------------------------------------------
    def _changed(self, view: View) -> None:
        """A configuration was taken or refused: compile what it needs, swap the settings as one object, then
        report at once."""
        try:
            self._put_in_force(view)
        except Exception as error:
            # A compiler that fails, a full disk: the policy in force decides on, and the report says why.
            config = view.config
            why = f"scheduler.policy: {config.scheduler.policy} cannot be put in force: {error!r}"
            logger.exception("slidingserve: %s; what was in force stays", why)
            rejected = Rejected(config.revision, config.generation, why)
            self._in_force = replace(self._in_force, rejected=rejected)
        self.report()

    def _put_in_force(self, view: View) -> None:
        policy = view.config.scheduler.policy
        if self._serving and not loaded(policy):
            self._compiling = policy
            self.report()
        try:
            self.force = force_of(view.config, self.learner.model.matrix, serving=self._serving)
        finally:
            self._compiling = ""
        self._in_force = view
        series("alpha", self.engine).set(view.config.alpha)

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            self.refresh()

    def refresh(self) -> None:
        """What happens every second: measure, learn, report."""
        try:
            self.delivery = self._measured_delivery()
            self.learner.refresh()
            self.report()
            if self._index == 0 and ready_mark(self._runtime).exists():
                self._warmth.begin(self.force.policy)
        except Exception as error:
            self._log_once(error, "the predictor's refresh failed, the model in force stays")

    def _measured_delivery(self) -> float:
        """That of the slowest API server of this pod."""
        reports = state.read_all(self._runtime.process_dir)
        return max((float(report.get("deliverySeconds", 0.0)) for report in reports), default=0.0)

    def report(self) -> None:
        """Write this process's state file; a full disk is logged, not fatal."""
        with self._reporting:  # or an older document might be written last
            document = {**self._in_force.to_json(), **self.learner.to_json(), "compiling": self._compiling}
            _write(self._runtime, self._index, document)


def report_fallback(runtime: Runtime, config: Any, reason: str) -> None:
    """Say, in place of an agent, that vLLM's own scheduler runs in this core although the front end cannot
    know."""
    logger.warning("slidingserve: fallback to vLLM's own scheduler: %s", reason)
    series("fallback", engine_label(config)).set(1)
    _write(runtime, core_index(config), {"revision": "", "generation": 0, "fallback": reason})


def _write(runtime: Runtime, index: int, document: dict[str, Any]) -> None:
    try:
        state.write(runtime.process_dir, state.stamped("core", index, document))
    except OSError as error:
        logger.warning("slidingserve: the state file cannot be written: %s", error)


def really_scheduled(requests: Any, counts: dict[str, int]) -> Features:
    """Features of the batch that vLLM made. `counts`: tokens by request; `num_computed_tokens` already has
    them."""
    decodes: list[int] = []
    prefills: list[tuple[int, int]] = []
    for name, count in counts.items():
        request = requests[name]
        before = request.num_computed_tokens - count
        if count == 1 and before >= request.num_prompt_tokens:
            decodes.append(before)
        else:
            prefills.append((count, before))
    return batch_features(decodes, prefills)
