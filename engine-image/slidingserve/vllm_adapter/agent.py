"""The brain of one engine core: policy and settings in force, the predictor that learns, the clock, and the reports.

The scheduler calls `prepare`, `scheduled` and `done` in the engine's loop; none of them raises. A daemon thread refits
the predictor and writes this process's state file, another watches the configuration, so all of it is in force on an
idle engine too.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from slidingserve import policies
from slidingserve.config import EngineConfig
from slidingserve.core.plan import Plan
from slidingserve.policies import Policy, PolicySettings
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.features import Features, Scene, batch_features
from slidingserve.predictor.online import OnlinePredictor
from slidingserve.predictor.profile import ProfileKey, load_profile, save_profile
from slidingserve.predictor.solo import SoloTable
from slidingserve.server import state
from slidingserve.server.live import LiveConfig, View
from slidingserve.server.metrics import series, touch
from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter.identity import Limits, profile_name
from slidingserve.vllm_adapter.clock import Batch, BatchClock
from slidingserve.vllm_adapter.step import Step, observe

logger = logging.getLogger("vllm.slidingserve")

BEAT_SECONDS = 1.0
WARM_UP_BATCHES = 2
THROUGHPUT_MEMORY = 0.95


class CoreAgent:
    """One an engine core."""

    def __init__(self, runtime: Runtime, *, index: int, engine: str, limits: Limits, key: ProfileKey) -> None:
        """`index`: of this core in its pod. `engine`: the label of its metrics."""
        self.engine = engine
        self._runtime = runtime
        self._index = index
        self._limits = limits
        self._key = key
        self._clock = BatchClock()
        self._prefill_tokens = 0.0
        self._prefill_seconds = 0.0
        self._batches = 0
        self.calibrating = False
        self.learning = True
        """False while batches should teach nothing: a calibration's warm-up."""
        self._wake = threading.Event()
        self.predictor = self._first_predictor()
        self._fitted = time.monotonic()
        self._publish_solo()
        self._errors_logged: set[str] = set()
        _touch(engine)
        self.live = LiveConfig(
            runtime.config_dir,
            limits.max_batch_tokens,
            role="core",
            on_change=lambda view: self._changed(view),
        )
        self._settings = _settings(self.live.view.config)
        self._changed(self.live.view)

    def start(self) -> None:
        """Begin to watch, learn and report."""
        self.live.start()
        threading.Thread(target=self._beat, name="slidingserve-agent", daemon=True).start()

    # --- in the engine's loop -------------------------------------------------------------------------------------
    def prepare(self, scheduler: Any) -> Step:
        """Plan the next step and arrange the scheduler for it. An empty step means vLLM's own order."""
        policy, settings = self._settings
        step = Step()
        if self.calibrating or not scheduler.requests or scheduler.pause_state.name != "UNPAUSED":
            return step
        begin = time.perf_counter()
        branch = "stock"
        try:
            plan = self._plan(scheduler, policy, settings, step)
            if plan is not None:
                branch = plan.branch
                series("plan_seconds", self.engine, policy.name).observe(time.perf_counter() - begin)
        except Exception as error:
            # Whatever a planner does, the engine serves on: this step is vLLM's.
            step.restore(scheduler)
            step = Step()
            branch = "fallback"
            self._planner_error(error)
        series("plans", self.engine, policy.name, branch).inc()
        return step

    def _plan(self, scheduler: Any, policy: Policy, settings: PolicySettings, step: Step) -> Plan | None:
        if policy.name == "fcfs":
            return None  # untouched by construction: not even a snapshot is taken
        now = self._clock.idle_at(time.monotonic())
        snapshot = observe(scheduler, now, self._throughput, self._default_promise)
        plan = policy.plan(snapshot, self.predictor.model, settings) if len(snapshot) else None
        if plan is not None:
            step.apply(scheduler, snapshot, plan)
        return plan

    def scheduled(self, scheduler: Any, output: Any) -> None:
        """`output` leaves for the workers: note what was really scheduled. Steps without tokens are no batches."""
        try:
            if not output.total_num_scheduled_tokens:
                self._count_queues(scheduler)
                return
            features = really_scheduled(scheduler.requests, output.num_scheduled_tokens)
            predicted = self.predictor.model.predict(features)
            self._clock.scheduled(Batch(output, features, predicted, time.monotonic()))
            if not self.calibrating:
                self._count_batch(scheduler, features)
        except Exception as error:
            self._planner_error(error)

    def done(self, output: Any) -> None:
        """The result of a batch arrived."""
        try:
            finished = self._clock.done(output, time.monotonic())
            if finished is None:
                return
            batch, seconds = finished
            self._batches += 1
            if not self.learning or self._batches <= WARM_UP_BATCHES:
                return
            self.predictor.observe(batch.features, seconds)
            if batch.features.prefill_tokens:
                self._prefill_tokens = (
                    THROUGHPUT_MEMORY * self._prefill_tokens + batch.features.prefill_tokens
                )
                self._prefill_seconds = THROUGHPUT_MEMORY * self._prefill_seconds + seconds
            if not self.calibrating:
                self._count_time(batch, seconds)
        except Exception as error:
            self._planner_error(error)

    @property
    def _throughput(self) -> float:
        """ρ: prefill tokens a second over the latest batches that had any; 0 before the first."""
        return self._prefill_tokens / self._prefill_seconds if self._prefill_seconds > 0 else 0.0

    def _default_promise(self, prompt_tokens: int) -> tuple[float, float, bool]:
        config = self.live.view.config
        slo = config.slo_class(None)
        return slo.ttft_seconds(self.solo.seconds(prompt_tokens)), slo.tbt_seconds, slo.safeguard

    def _planner_error(self, error: Exception) -> None:
        series("planner_errors", self.engine).inc()
        text = f"{type(error).__name__}: {error}"
        if text not in self._errors_logged and len(self._errors_logged) < 100:
            self._errors_logged.add(text)
            logger.exception("slidingserve: planning failed, vLLM's own order serves this step (logged once)")

    def _count_batch(self, scheduler: Any, features: Features) -> None:
        engine = self.engine
        if features.prefill_tokens:
            series("chunk_tokens", engine).observe(features.prefill_tokens)
        series("batch_tokens", engine).observe(features.prefill_tokens + features.decode_requests)
        self._count_queues(scheduler)

    def _count_queues(self, scheduler: Any) -> None:
        prefills = sum(1 for request in scheduler.running if request.is_prefill_chunk)
        waiting = len(scheduler.waiting) + len(scheduler.kv_holding_waiting)
        phases = {"waiting": waiting, "prefill": prefills, "decode": len(scheduler.running) - prefills}
        for phase, count in phases.items():
            series("queue_requests", self.engine, phase).set(count)

    def _count_time(self, batch: Batch, seconds: float) -> None:
        engine, scene = self.engine, batch.features.scene.value
        series("batch_seconds", engine, scene).observe(seconds)
        series("predicted_batch_seconds", engine, scene).observe(batch.predicted)
        series("predictor_error_seconds", engine, scene).observe(seconds - batch.predicted)
        series("predictor_abs_error_seconds", engine, scene).observe(abs(seconds - batch.predicted))

    # --- calibration, called between steps ------------------------------------------------------------------------
    def calibration(self, phase: str) -> bool:
        """Enter or leave calibration: batches run in vLLM's order, teach the predictor and stay out of the metrics.

        `phase`: "warmup" (teach nothing), "measure", or "end", which fits the model and stores it; anything else only
        asks. Returns whether the predictor is calibrated.
        """
        if phase in ("warmup", "measure", "end"):
            self.calibrating = phase != "end"
            self.learning = phase != "warmup"
        if phase == "end":
            self.predictor.refit()
            self._refitted()
            if self.predictor.calibrated and self._runtime.profile_dir is not None:
                problem = save_profile(
                    self._profile_path(), self._key, self.predictor.model, self.predictor.samples
                )
                if problem:
                    logger.warning("slidingserve: the calibration profile was not kept: %s", problem)
            self.report()
        return self.predictor.calibrated

    def _first_predictor(self) -> OnlinePredictor:
        """A stored profile whose key fits, else the cautious default model."""
        if self._runtime.profile_dir is not None:
            loaded = load_profile(self._profile_path(), self._key)
            if loaded.model is not None:
                logger.info("slidingserve: %s is in use", self._profile_path())
                return OnlinePredictor(loaded.model, calibrated=True)
            logger.info("slidingserve: %s", loaded.reason)
        return OnlinePredictor(default_model(self._limits.device))

    def _profile_path(self) -> Path:
        assert self._runtime.profile_dir is not None
        return self._runtime.profile_dir / profile_name(self._key)

    # --- in the threads -------------------------------------------------------------------------------------------
    def _changed(self, view: View) -> None:
        """A configuration was taken or refused: swap the settings as one object, then report at once."""
        self._settings = _settings(view.config)
        series("alpha", self.engine).set(view.config.alpha)
        self.report()

    def _beat(self) -> None:
        while True:
            self._wake.wait(BEAT_SECONDS)
            try:
                refresh = self.live.view.config.scheduler.predictor.refresh_seconds
                if (
                    not self.calibrating
                    and time.monotonic() - self._fitted >= refresh
                    and self.predictor.refit()
                ):
                    self._refitted()
                    series("predictor_refreshes", self.engine).inc()
                series("predictor_age_seconds", self.engine).set(time.monotonic() - self._fitted)
                self.report()
            except Exception:
                logger.exception("slidingserve: the predictor's refresh failed; the model in force stays")

    def _refitted(self) -> None:
        self._fitted = time.monotonic()
        self._publish_solo()
        for scene, quality in self.predictor.quality().items():
            if quality.get("r2") is not None:
                series("predictor_r2", self.engine, str(scene)).set(quality["r2"])

    def _publish_solo(self) -> None:
        self.solo = SoloTable.from_model(
            self.predictor.model,
            max_chunk=min(self._limits.max_batch_tokens, 2048),
            max_prompt=self._limits.max_model_len,
        )

    def report(self) -> None:
        """Write this process's state file; a full disk is logged, not fatal."""
        view = self.live.view
        document = {
            "role": "core",
            "index": self._index,
            "pid": os.getpid(),
            "revision": view.config.revision,
            "generation": view.config.generation,
            "policy": view.config.scheduler.policy,
            "alpha": view.config.alpha,
            "unknownKeys": list(view.unknown_keys),
            "rejected": view.rejected.to_json() if view.rejected else None,
            "predictor": {
                "calibrated": self.predictor.calibrated,
                "samples": self.predictor.samples,
                "refreshSeconds": view.config.scheduler.predictor.refresh_seconds,
                "ageSeconds": round(time.monotonic() - self._fitted, 1),
                "scenes": self.predictor.quality(),
            },
            "model": self.predictor.model.to_json(),
            "solo": self.solo.to_json(),
        }
        try:
            state.write(self._runtime.process_dir, "core", self._index, document)
        except OSError as error:
            logger.warning("slidingserve: the state file cannot be written: %s", error)


def really_scheduled(requests: Any, counts: dict[str, int]) -> Features:
    """Features of the batch that vLLM made. `counts`: tokens by request id; `num_computed_tokens` already has them."""
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


def _settings(config: EngineConfig) -> tuple[Policy, PolicySettings]:
    return policies.get(config.scheduler.policy), config.policy_settings()


def _touch(engine: str) -> None:
    touch(
        "core",
        engine=(engine,),
        policy=tuple(policies.names()),
        branch=("chunker", "constructor", "fallback", "stock"),
        scene=tuple(scene.value for scene in Scene),
        phase=("waiting", "prefill", "decode"),
        role=("core",),
        result=("applied", "rejected"),
    )
