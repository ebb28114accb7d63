from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from slidingserve.core import compiled
from slidingserve.core.throughput import update

CALLEE = "from slidingserve.core.compiled import compiled\n\n@compiled\ndef answer() -> int:\n    return {}\n"
CALLER = (
    "from slidingserve.core.callee import answer\nfrom slidingserve.core.compiled import compiled\n\n"
    "@compiled\ndef ask() -> int:\n    return answer() * 10\n\nprint(ask())\n"
)


def test_stored_code_is_made_anew_when_a_function_that_it_calls_has_changed(tmp_path: Path) -> None:
    """numba by itself looks only at the file of the function that is stored."""
    core = tmp_path / "slidingserve" / "core"
    core.mkdir(parents=True)
    (core.parent / "__init__.py").touch()
    (core / "__init__.py").touch()
    (core / "compiled.py").write_bytes(Path(compiled.__file__).read_bytes())
    (core / "caller.py").write_text(CALLER)

    def run(number: int) -> str:
        (core / "callee.py").write_text(CALLEE.format(number))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA")}
        command = [sys.executable, "-m", "slidingserve.core.caller"]
        # Python's own byte code knows a file's time in whole seconds: two runs in one would use the old.
        environment = {**environment, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, check=True, text=True
        )
        return done.stdout.strip()

    assert run(1) == "10"
    assert run(1) == "10"
    assert run(2) == "20"


def test_stored_code_of_another_numba_or_another_source_has_another_name() -> None:
    """So neither is loaded by mistake, nor thrown away by a second environment on the same files."""
    name = update._cache._cache_file._index_name  # type: ignore[attr-defined]  # numba's own, untyped
    assert f".{numba.__version__}-" in name
    assert compiled._sources(("core", "hardware", "policies")) in name


def test_throughput_is_prefill_tokens_a_second_over_the_latest_batches() -> None:
    tokens = seconds = 0.0
    for _ in range(200):
        tokens, seconds = update(tokens, seconds, 100.0, 0.1)
    assert tokens / seconds == pytest.approx(1000.0)
    for _ in range(60):
        tokens, seconds = update(tokens, seconds, 500.0, 0.1)
    assert tokens / seconds == pytest.approx(5000.0, rel=0.05), "what was before is nearly forgotten"
    assert update(tokens, seconds, 0.0, 9.0) == (tokens, seconds), "a pure decode batch does not count"
