"""What `slidingserve serve` tells its child processes, carried by environment variables.

The launcher writes it once before vLLM starts; API servers, engine cores and workers (forked or spawned)
read it back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATE_DIR = "SLIDINGSERVE_STATE_DIR"
CONFIG_DIR = "SLIDINGSERVE_CONFIG_DIR"
PROFILE_DIR = "SLIDINGSERVE_PROFILE_DIR"
FALLBACK_ALLOWED = "SLIDINGSERVE_FALLBACK"
FALLBACK_REASON = "SLIDINGSERVE_FALLBACK_REASON"
CALIBRATION_SECONDS = "SLIDINGSERVE_CALIBRATION_SECONDS"
NO_HOOKS = "SLIDINGSERVE_NO_HOOKS"
"""Set where this vLLM is not one that we know: nothing of it is wrapped."""

DEFAULT_CALIBRATION_SECONDS = 12.0


@dataclass(frozen=True)
class Runtime:
    """Where this engine keeps its small files and how it was told to behave.

    `fallback_reason` is the sentence of the gate that made the launcher choose vLLM's own scheduler, or "".
    """

    state_dir: Path
    config_dir: Path | None = None
    profile_dir: Path | None = None
    fallback_allowed: bool = False
    fallback_reason: str = ""
    calibration_seconds: float = DEFAULT_CALIBRATION_SECONDS

    @property
    def process_dir(self) -> Path:
        """One file a process: what it has applied."""
        return self.state_dir / "processes"

    @property
    def metrics_dir(self) -> Path:
        """prometheus_client's multiprocess directory."""
        return self.state_dir / "metrics"

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Runtime | None:
        """Read what the launcher wrote; None where there was no launcher (plain `vllm serve` with our
        package)."""
        state = env.get(STATE_DIR)
        if not state:
            return None
        return cls(
            state_dir=Path(state),
            config_dir=_path(env.get(CONFIG_DIR)),
            profile_dir=_path(env.get(PROFILE_DIR)),
            fallback_allowed=env.get(FALLBACK_ALLOWED) == "1",
            fallback_reason=env.get(FALLBACK_REASON, ""),
            calibration_seconds=float(env.get(CALIBRATION_SECONDS) or DEFAULT_CALIBRATION_SECONDS),
        )

    def to_env(self) -> dict[str, str]:
        """Give the variables that `from_env` reads back."""
        env = {
            STATE_DIR: str(self.state_dir),
            FALLBACK_ALLOWED: "1" if self.fallback_allowed else "0",
            FALLBACK_REASON: self.fallback_reason,
            CALIBRATION_SECONDS: str(self.calibration_seconds),
        }
        if self.config_dir is not None:
            env[CONFIG_DIR] = str(self.config_dir)
        if self.profile_dir is not None:
            env[PROFILE_DIR] = str(self.profile_dir)
        return env


def ready_mark(runtime: Runtime) -> Path:
    """The file whose presence means: the first API server has calibrated, the engine is ready."""
    return runtime.process_dir / "calibrated"


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
