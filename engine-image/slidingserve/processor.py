"""What the processor is, as far as compiled code cares: the instruction sets that an engine on CPUs can use,
and a key for caches of machine code.

Read by the launcher, which keys caches and names what is masked; applied to vLLM in each of its processes by
`vllm_adapter.cpu_features`. Pure, but for `read`.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path

MASK = "SLIDINGSERVE_CPU_ISA"
"""Environment variable: the most that the engine uses, one of `LEVELS`; unset: all that is there."""
LEVELS = ("avx2", "avx512", "avx512_bf16", "amx")
"""From the least to the most. vLLM's CPU build has a library for each of the first three; the last adds
kernels for AMX tiles to the third."""
# /proc/cpuinfo's words for what each level needs beyond the one before.
_NEEDS = {"avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
          "avx512_bf16": {"avx512_bf16"}, "amx": {"amx_tile", "amx_bf16"}}  # fmt: skip
_ATEN = {"avx2": "avx2", "avx512": "avx512", "avx512_bf16": "avx512"}
_ONEDNN = {"avx2": "AVX2", "avx512": "AVX512_CORE", "avx512_bf16": "AVX512_CORE_BF16"}
_CPUINFO = Path("/proc/cpuinfo")


class ProcessorError(Exception):
    """The processor, or what was said of it, cannot be used; the message is one sentence."""


def read() -> str:
    """The kernel's own description of the processors; empty where it has none."""
    try:
        return _CPUINFO.read_text(errors="replace")
    except OSError:
        return ""


def is_x86(machine: str = "") -> bool:
    """Whether levels mean anything here."""
    return (machine or platform.machine()).lower() in ("x86_64", "amd64")


def flags(cpuinfo: str) -> frozenset[str]:
    """The words for what the first processor can do."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def level(found: frozenset[str]) -> str:
    """The highest level of which all is there; empty below AVX2."""
    reached = ""
    for name in LEVELS:
        if not _NEEDS[name] <= found:
            break
        reached = name
    return reached


def masked(environment: Mapping[str, str]) -> str:
    """The level that the user allows at most; empty for all. Raises ProcessorError."""
    text = environment.get(MASK, "").strip().lower()
    if text and text not in LEVELS:
        raise ProcessorError(
            f"{MASK}={text}: is no instruction set; give one of {', '.join(LEVELS)}, or unset it"
        )
    return text


def lower(one: str, other: str) -> str:
    """The lesser of two levels; an empty one does not count."""
    return min(filter(None, (one, other)), key=LEVELS.index, default="")


def library_environment(wanted: str) -> dict[str, str]:
    """What keeps PyTorch's and oneDNN's own kernels to a level: they look at the processor themselves."""
    if wanted in ("", "amx"):
        return {}
    return {"ATEN_CPU_CAPABILITY": _ATEN[wanted], "ONEDNN_MAX_CPU_ISA": _ONEDNN[wanted]}


def cache_key(cpuinfo: str, mask: str = "") -> str:
    """A name for this kind of processor: machine code that was compiled on another must not be run here.

    Compilers are asked for `-march=native`, which reads the same on every machine, so keys made of the
    compiler's arguments (PyTorch's) let a cache on a shared volume end an engine with SIGILL.
    """
    words: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        words.setdefault(name.strip(), value.strip())
    told = (words.get("vendor_id"), words.get("cpu family"), words.get("model"), words.get("model name"))
    text = repr((platform.machine(), told, sorted(flags(cpuinfo)), mask))
    return f"cpu-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
