"""What tests do with a `cores.Core`. Without vLLM, so that collecting them needs none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[..., Any]
"""Makes a `Core` of `cores.Core`'s arguments."""
Counted = Callable[..., float]


def mixed_load(core: Any, name: str = "r") -> None:
    """Short and long prompts, added in two waves so that prefills meet decodes."""
    for number, prompt in enumerate((30, 700, 5, 260, 90)):
        core.add(f"{name}{number}", prompt, output=6, ttft_s=1.0 + number, tbt_s=0.1)
    for _ in range(3):
        core.step()
    for number, prompt in enumerate((400, 3, 900, 256, 1), 5):
        core.add(f"{name}{number}", prompt, output=6, ttft_s=0.5, tbt_s=0.05)
    core.drain()


def switch(core: Any, generation: int, **scheduler: Any) -> None:
    """What the watching thread does when the file has changed."""
    from tests.engine.cores import write_config

    write_config(core.config_dir, generation=generation, **scheduler)
    core.agent.live.read()
    core.agent._changed(core.agent.live.view)


def preempted(core: Any) -> list[str]:
    """The names of requests as they are preempted from now on."""
    names: list[str] = []
    preempt = core.scheduler._preempt_request

    def recorded(request: Any, *args: Any, **kwargs: Any) -> None:
        names.append(request.request_id)
        preempt(request, *args, **kwargs)

    core.scheduler._preempt_request = recorded
    return names
