"""What one API server process knows: configuration in force, solo times, its counts, and the state of the
whole pod.

Made once by the endpoint plugin when vLLM's application starts; the middleware, the wrapper of
`process_inputs` and the routes find it by `get`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from slidingserve.config import EngineConfig
from slidingserve.predictor.solo import SoloTable
from slidingserve.server import metrics
from slidingserve.server import state as files
from slidingserve.server.attainment import OBJECTIVES, Counts, Tracker
from slidingserve.server.delivery import Delivery
from slidingserve.server.drain import Drain
from slidingserve.server.live import LiveConfig, View
from slidingserve.server.promise import Asked, Promise, resolve
from slidingserve.server.runtime import Runtime

BEAT_SECONDS = 1.0
REWRITE_SECONDS = 5.0


class FrontEnd:
    """One a process. All methods may be called from any thread."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        index: int,
        expected: Mapping[str, int],
        max_batch_tokens: int,
        vllm_version: str,
        solo: SoloTable,
    ) -> None:
        """`expected`: how many processes of each role this pod has. `solo`: holds until a core has
        published one.

        Reads the configuration at once.
        """
        self.runtime = runtime
        self.counts = Counts()
        self.delivery = Delivery()
        self.drain = Drain(runtime)
        self._index = index
        self._expected = expected
        self._vllm_version = vllm_version
        self.cores: list[files.Document] = []
        """What the engine cores reported, as of a second ago."""
        self._solo = solo
        self._solo_source: object = None
        self._reporting = threading.Lock()
        self._written: tuple[float, files.Document] = (-1.0, {})
        self._known: set[str] = set()
        self.live = LiveConfig(runtime.config_dir, max_batch_tokens, role="api", on_change=self._changed)
        self._changed(self.live.view)
        metrics.touch("api", role=("api",), result=("applied", "rejected"), engine=self._engines())

    @property
    def config(self) -> EngineConfig:
        """In force now; a request takes it once and keeps it."""
        return self.live.view.config

    def start(self) -> None:
        """Begin to watch the configuration and to report, in daemon threads."""
        self.live.start()
        if self.runtime.fallback_reason:
            for engine in self._engines():
                metrics.series("fallback", engine).set(1)
        threading.Thread(target=self._beat, name="slidingserve-state", daemon=True).start()

    def promise(self, tracker: Tracker | None, extra_args: Mapping[str, Any], prompt_tokens: int) -> Promise:
        """The promise of one prompt: headers (of `tracker`) over `vllm_xargs`. Raises PromiseError."""
        config = tracker.config if tracker is not None else self.config
        asked = Asked.from_xargs(extra_args, config)
        if tracker is not None:
            asked = tracker.asked.over(asked)
        return resolve(asked, config, prompt_tokens, self.solo())

    def solo(self) -> SoloTable:
        """The solo times that the core published last; before it has, those of the safe default model."""
        document = next((core["solo"] for core in self.cores if core.get("solo")), None)
        if document is not None and document != self._solo_source:
            self._solo, self._solo_source = SoloTable.from_json(document), document
        return self._solo

    def read_cores(self) -> None:
        """Read what the engine cores reported. Not in the event loop: these are files."""
        self.cores = [d for d in files.read_all(self.runtime.process_dir) if d["role"] == "core"]

    def state(self) -> files.Document:
        """The answer of the state endpoint."""
        own = files.stamped("api", self._index, self.document())
        others = [d for d in files.read_all(self.runtime.process_dir) if not files.same_process(d, own)]
        reason = self.runtime.fallback_reason
        expected = {**self._expected, "core": 0} if reason else self._expected
        return files.merge([own, *others], expected, self._vllm_version, reason)

    def document(self) -> files.Document:
        """What this process reports of itself."""
        return {
            **self.live.view.to_json(),
            "drain": self.drain.report(),
            "deliverySeconds": round(self.delivery.usual(), 4),
            "classes": {name: asdict(counts) for name, counts in list(self.counts.classes.items())},
        }

    def report(self) -> None:
        """Write this process's file, if it changed or was not written for a while."""
        with self._reporting:  # or an older document might be written last
            now, document = time.monotonic(), self.document()
            written, last = self._written
            if document != last or now - written >= REWRITE_SECONDS:
                files.write(self.runtime.process_dir, files.stamped("api", self._index, document))
                self._written = (now, document)

    def _beat(self) -> None:
        while True:
            try:
                self.read_cores()
                self.report()
            except Exception as error:  # the thread must outlive it
                metrics.logger.warning("slidingserve: the state cannot be reported: %s", error)
            time.sleep(BEAT_SECONDS)

    def _changed(self, view: View) -> None:
        """Targets of the classes into the gauges, counters of new classes at zero; then report."""
        classes = {slo.name: slo for slo in view.config.classes}
        metrics.touch("api", slo_class=tuple(classes), objective=OBJECTIVES)
        for name in self._known - classes.keys():
            metrics.series("slo_objective_ratio", name).set(float("nan"))
            for objective in ("ttft", "tbt"):
                metrics.series("slo_target_seconds", name, objective).set(float("nan"))
        self._known |= classes.keys()
        for name, slo in classes.items():
            ttft = slo.ttft_milliseconds / 1000 if slo.ttft_milliseconds is not None else float("nan")
            metrics.series("slo_target_seconds", name, "ttft").set(ttft)
            metrics.series("slo_target_seconds", name, "tbt").set(slo.tbt_seconds)
            metrics.series("slo_objective_ratio", name).set(slo.objective_percent / 100)
            self.counts.know(name)
        if self._written[0] >= 0:
            self.report()

    def _engines(self) -> tuple[str, ...]:
        return tuple(str(engine) for engine in range(max(self._expected["core"], 1)))


_current: FrontEnd | None = None


def install(front: FrontEnd) -> None:
    """Make `front` the one that `get` finds in this process."""
    global _current
    _current = front


def get() -> FrontEnd | None:
    """The front end of this process, or None where none was started (an engine core, offline use, a test)."""
    return _current
