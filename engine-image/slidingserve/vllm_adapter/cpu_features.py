"""On CPUs, in each of vLLM's processes before a kernel is chosen: ask for AMX, and hide what may not be used.

vLLM and PyTorch choose kernels by what the processor says that it can do. For AMX that is not enough: Linux
gives the tiles' registers only to a process that asked for them, and ends one that did not with SIGILL at its
first tile. oneDNN asks with its first matrix product; vLLM 0.32's attention does not, and in a short first
prompt it comes first.

`platform` is an entry point of `vllm.platform_plugins`, which vLLM calls before it loads kernels; it names no
platform. The general plugin calls `prepare` once more, for where that group is not asked.
"""

from __future__ import annotations

import os
import platform as platform_module
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from slidingserve import processor
from slidingserve.processor import ProcessorError

_MARK = "slidingserve"
# PyTorch's words for what a level adds: hidden together with it.
_ADDS = {"avx512": ("avx512",), "avx512_bf16": ("avx512_bf16", "avx512_fp16"), "amx": ("amx",)}


def platform() -> None:
    """Entry point of `vllm.platform_plugins`: no platform, but the earliest call in every process."""
    prepare()


def prepare() -> str:
    """Make this process ready for the level it may use; returns that level, empty where none is known.

    May be called more than once. A mask that is no level was refused at the launch; here it hides nothing.
    """
    if not processor.is_x86():
        return ""
    import torch

    real: Any = torch.cpu.get_capabilities
    if level := getattr(real, _MARK, None):
        return str(level)
    found = processor.level(processor.flags(processor.read()))
    try:
        level = processor.lower(found, processor.masked(os.environ))
    except ProcessorError:
        level = found
    if level == "amx" and not torch.cpu._init_amx():
        level = "avx512_bf16"  # the kernel, or a sandbox around it, keeps the tiles to itself
    if level != found:
        os.environ.update(processor.library_environment(level))
    hidden = _visible(real(), level)

    def capabilities() -> Mapping[str, Any]:
        return hidden

    setattr(capabilities, _MARK, level)
    torch.cpu.get_capabilities = capabilities
    return level


def _visible(capabilities: Mapping[str, Any], level: str) -> Mapping[str, Any]:
    """PyTorch's capabilities without what lies above a level."""
    above = processor.LEVELS[processor.LEVELS.index(level) + 1 :] if level else processor.LEVELS
    starts = tuple(start for name in above for start in _ADDS.get(name, ()))
    return MappingProxyType(
        {name: False if name.startswith(starts) else value for name, value in capabilities.items()}
    )


def told() -> str:
    """One line: which instruction sets were found, and which the engine uses.

    Raises ProcessorError below AVX2, where vLLM's kernels would end with SIGILL.
    """
    if not processor.is_x86():
        return f"instruction sets: {platform_module.machine()}, all that vLLM finds"
    found = processor.level(processor.flags(processor.read()))
    if not found:
        raise ProcessorError(
            "this processor has no AVX2, which vLLM's CPU build needs; run on another machine, or without "
            "computing: --emulate PROFILE"
        )
    used = prepare()
    why = ""
    if used != found:
        mask = os.environ.get(processor.MASK)
        why = f" ({processor.MASK}={mask})" if mask else " (the kernel gives this process no AMX tiles)"
    amx = "" if found == "amx" else "; no AMX on this processor"
    return f"instruction sets: found {found}, the engine uses {used}{why}{amx}"
