"""The last step of `slidingserve serve`: pass the gate, then call vLLM's own command line, in a child of this
process (see `supervisor`)."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Any, NoReturn

from slidingserve.server import address, logs
from slidingserve.server.launch import LaunchError
from slidingserve.server.runtime import FALLBACK_REASON, NO_HOOKS, Runtime
from slidingserve.vllm_adapter import failure, gate, hub_start, supervisor

logger = logging.getLogger("vllm.slidingserve")


def run(runtime: Runtime) -> NoReturn:
    """Check vLLM's version and hooks, then run its command line with the arguments that stand in sys.argv.
    Ends this process with an exit status.

    What ends vLLM but a signal to this process is told in one last line: the error of the core that failed,
    the signal that ended a process, what the model hub refused. Raises LaunchError with one sentence, in the
    child, if vLLM does not fit and no fallback was allowed.
    """
    sys.exit(supervisor.supervise(runtime, lambda: serve(runtime)))


def serve(runtime: Runtime) -> None:
    """What the child does: `run` without its end."""
    found = gate.installed_version()
    problem = gate.check_version(found)
    if problem and not found:
        raise LaunchError(problem)
    if not problem:
        ask_the_hub(runtime)
        problem = gate.check_hooks()
    if problem and not runtime.fallback_allowed:
        raise LaunchError(f"{problem}, or start with --fallback to serve with vLLM's own scheduler")
    if problem:
        step_back(problem)
        os.environ[NO_HOOKS] = "1"
        drop_scheduler(sys.argv)

    from vllm.entrypoints.cli.main import main

    if not problem:
        listen_on_both_families()
    try:
        main()
    except Exception as error:
        failure.note(runtime, failure.line(error, *sys.argv[2:3]))
        if logs.as_json():
            logger.exception("slidingserve: vLLM ended")
        else:
            traceback.print_exc()
        sys.exit(1)


def ask_the_hub(runtime: Runtime) -> None:
    """Find out before all else, once, whether the model can be had; end with a line where it cannot."""
    try:
        hub_start.prepare(sys.argv)
    except hub_start.HubError as error:
        failure.note(runtime, str(error))
        sys.exit(1)
    except Exception:  # what fails in an unforeseen way is vLLM's to meet
        logger.exception("slidingserve: the model hub was not asked")


def listen_on_both_families() -> None:
    """Let `--host ::` mean IPv4 too, also where net.ipv6.bindv6only is 1: vLLM leaves that to the kernel."""
    from vllm.entrypoints.launchers import launcher

    original = launcher.create_server_socket

    def create(addr: tuple[str, int], *, reuse_port: bool) -> Any:
        if addr[0] == address.BOTH:
            return address.both_families(addr, reuse_port=reuse_port)
        return original(addr, reuse_port=reuse_port)

    launcher.create_server_socket = create


def refuse(runtime: Runtime, error: LaunchError) -> NoReturn:
    """End this process, and leave one line for the end: deep inside vLLM an exception would be a page of
    traceback."""
    failure.note(runtime, str(error))
    sys.exit(2)


def step_back(reason: str) -> None:
    """Remember, for this process and the children to come, that vLLM's own scheduler runs and why."""
    os.environ[FALLBACK_REASON] = reason
    logs.say(f"fallback to vLLM's own scheduler: {reason}", "WARNING")


def drop_scheduler(argv: list[str]) -> None:
    """Take our --scheduler-cls out of vLLM's arguments again, in place."""
    at = argv.index("--scheduler-cls")
    del argv[at : at + 2]
