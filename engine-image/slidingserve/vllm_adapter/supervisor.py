"""The process above vLLM's: it passes signals on, and ends last, with an exit status and a line that are
true.

Place in the flow: `entry.run` forks here before vLLM is imported; the child is vLLM's own command line with
all its processes, this one only waits. It is needed since vLLM's front end calls it a success (exit status 0)
when its engine dies, and prints on after it said why; and since nobody but a parent sees which signal ended a
process. In a container it is the first process, and reaps what others leave behind.

`outcome` is pure; all effects are in `supervise`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from slidingserve.server import logs
from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter import failure

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
FAILED = 1
LEFT_SECONDS = 5.0
"""What the engine leaves behind has so long to end after SIGTERM, then it is killed."""
_SI_KERNEL = 0x80
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def outcome(status: int, noted: str, *, stopped: bool) -> tuple[int, str]:
    """Exit status of the whole and its last line ("" for none), from the wait status of vLLM's process.

    `noted`: why a process of the engine failed, as it or its parent wrote it down before anybody asked to
    stop. `stopped`: somebody did.
    """
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 128 + number if number else os.waitstatus_to_exitcode(status)
    if noted:
        return (FAILED if number else code or FAILED), noted
    if number and not stopped:
        return FAILED, f"the API server {failure.ended(-number)}"
    return code, ""


def supervise(runtime: Runtime, serve: Callable[[], None]) -> int:
    """Call `serve` in a child process, and return the exit status once it and all that it started have ended.

    In the child this does not return: it ends as `serve` does, in the caller's frames (see `entry.run`).
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED_ON, signal.SIGCHLD})
    killed_before = failure.oom_kills()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        atexit.unregister(
            shutil.rmtree
        )  # temporary directories are the parent's to remove, after it has looked
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(FAILED)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        serve()
        raise SystemExit(0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    status, stopped, noted = _wait(child, runtime)
    _end_the_rest()
    code, cause = outcome(status, noted if stopped else failure.first(runtime), stopped=stopped)
    if cause:
        if "(SIGKILL)" in cause and failure.oom_kills() > killed_before:
            cause += failure.BY_THE_KERNEL
        failure.tell_kubernetes(cause)
        logs.say(cause)
    return code


def _wait(child: int, runtime: Runtime) -> tuple[int, bool, str]:
    """Pass signals on until `child` has ended: its wait status, whether it was asked to, and what had failed
    before that."""
    stopped, noted = False, ""
    while True:
        info = signal.sigwaitinfo({*PASSED_ON, signal.SIGCHLD})
        if info.si_signo == signal.SIGCHLD:
            while (found := _reaped())[0]:
                if found[0] == child:
                    return found[1], stopped, noted
            continue
        if info.si_signo in STOPS and not stopped:
            stopped, noted = True, failure.first(runtime)
        if info.si_code != _SI_KERNEL:  # a terminal's Ctrl-C reaches the child by itself
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, info.si_signo)


def _reaped() -> tuple[int, int]:
    """Pid and wait status of a child that has ended; pid 0 if none has, or there is none."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0


def _end_the_rest() -> None:
    """End what is left of the engine, so that nothing holds its accelerator or writes after the last line."""
    deadline = time.monotonic() + LEFT_SECONDS
    asked: set[int] = set()
    while left := _children():
        late = time.monotonic() > deadline
        for pid in left if late else left - asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        asked |= left
        signal.sigtimedwait({signal.SIGCHLD}, 0.1)
        while _reaped()[0]:
            pass


def _children() -> set[int]:
    """Pids of this process's children, those that it inherited too, as far as the kernel tells."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return set()
    return {int(pid) for pid in text.split()}


def _prctl(option: int, value: int) -> None:
    """Linux's prctl; without it the process above is merely a less thorough one."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
