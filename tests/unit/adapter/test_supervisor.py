"""The process above vLLM's: exit status and last line, with real processes in place of an engine's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter import failure
from slidingserve.vllm_adapter.supervisor import outcome

from tests.polling import until

OK, TWO, KILLED = 0, 2 << 8, int(signal.SIGKILL)
SCRIPT = """
import os, signal, subprocess, sys, time
from pathlib import Path
from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter import failure, supervisor

runtime = Runtime(Path(sys.argv[1]))
failure.TERMINATION_LOG = runtime.state_dir / "termination-log"
supervisor.LEFT_SECONDS = 0.5
LATE = '''
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("ready", flush=True)
time.sleep(600)
'''

def serve():
    {body}

sys.exit(supervisor.supervise(runtime, serve))
"""


@pytest.mark.parametrize(
    ("status", "noted", "stopped", "expected"),
    [
        (OK, "", True, (0, "")),
        (OK, "", False, (0, "")),  # vLLM's --help
        (OK, "the core died", False, (1, "the core died")),  # what vLLM calls a success
        (OK, "the core died", True, (1, "the core died")),  # before it was stopped
        (TWO, "", False, (2, "")),
        (TWO, "refused", False, (2, "refused")),
        (KILLED, "", False, (1, "the API server was ended by signal 9 (SIGKILL)")),
        (KILLED, "", True, (137, "")),
        (KILLED, "the core died", False, (1, "the core died")),
    ],
)
def test_the_status_is_true_and_the_line_names_the_first_cause(
    status: int, noted: str, stopped: bool, expected: tuple[int, str]
) -> None:
    assert outcome(status, noted, stopped=stopped) == expected


def start(tmp_path: Path, body: str) -> subprocess.Popen[str]:
    """A launcher whose vLLM is `body`."""
    Runtime(tmp_path).process_dir.mkdir()
    (tmp_path / "termination-log").touch()
    command = [sys.executable, "-c", SCRIPT.replace("{body}", body.replace("\n", "\n    ")), str(tmp_path)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_an_engine_that_died_is_no_success_and_its_cause_is_last_and_in_the_termination_log(
    tmp_path: Path,
) -> None:
    body = 'failure.note(runtime, "the engine core ended")\nprint("Finished server process", file=sys.stderr)'
    process = start(tmp_path, body)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert said.splitlines() == ["Finished server process", "slidingserve: the engine core ended"]
    assert (tmp_path / "termination-log").read_text() == "the engine core ended"


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGKILL])
def test_the_signal_that_ended_the_api_server_is_named(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, f"os.kill(os.getpid(), {int(number)})")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert said == f"slidingserve: the API server was ended by signal {int(number)} ({number.name})\n"


def test_a_stop_is_passed_on_and_ends_with_vllms_own_status(tmp_path: Path) -> None:
    body = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        'print("ready", flush=True)\n'
        'signal.pause()\nfailure.note(runtime, "too late to count")'
    )
    process = start(tmp_path, body)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_what_the_engine_leaves_behind_ends_before_the_last_line(tmp_path: Path) -> None:
    """A core that does not hear SIGTERM would hold its accelerator."""
    body = (
        "left = subprocess.Popen([sys.executable, '-c', LATE], stdout=subprocess.PIPE)\n"
        "left.stdout.readline()\n"
        "print(left.pid, flush=True)\n"
        'failure.note(runtime, "the engine core ended")\nos._exit(0)'
    )
    process = start(tmp_path, body)
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (1, "slidingserve: the engine core ended\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(said), 0)


def test_an_engine_ends_when_the_process_above_it_is_killed(tmp_path: Path) -> None:
    body = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print(os.getpid(), flush=True)\nsignal.pause()"
    )
    process = start(tmp_path, body)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not _runs(child), "the engine is gone", 30)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_child_that_the_kernel_killed_for_memory_is_counted(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    assert failure.oom_kills(events) == 0
    events.write_text("low 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n")
    assert failure.oom_kills(events) == 2
