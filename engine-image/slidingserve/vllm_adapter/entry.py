"""The last step of `slidingserve serve`: pass the gate, then call vLLM's own command line in this process."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn

from slidingserve.server.launch import LaunchError
from slidingserve.server.runtime import FALLBACK_REASON, NO_HOOKS, Runtime
from slidingserve.vllm_adapter import failure, gate


def run(runtime: Runtime) -> None:
    """Check vLLM's version and hooks, then run its command line with the arguments that stand in sys.argv.

    Raises LaunchError with one sentence if vLLM does not fit and no fallback was allowed. What else ends vLLM
    is told in one last line: the error of the core that failed, or what the model hub refused.
    """
    found = gate.installed_version()
    problem = gate.check_version(found) or gate.check_hooks()
    if problem and not (runtime.fallback_allowed and found):
        raise LaunchError(f"{problem}, or start with --fallback to serve with vLLM's own scheduler")
    if problem:
        step_back(problem)
        os.environ[NO_HOOKS] = "1"
        drop_scheduler(sys.argv)

    from vllm.entrypoints.cli.main import main

    try:
        main()
    except Exception as error:
        cause = failure.first(runtime) or failure.line(error, *sys.argv[2:3])
        traceback.print_exc()
        failure.tell_kubernetes(cause)
        print(f"slidingserve: {cause}", file=sys.stderr, flush=True)  # noqa: T201
        sys.exit(1)


def refuse(error: LaunchError) -> NoReturn:
    """End this process with one line on stderr: deep inside vLLM an exception would be a page of
    traceback."""
    failure.tell_kubernetes(str(error))
    print(f"slidingserve: {error}", file=sys.stderr, flush=True)  # noqa: T201
    sys.exit(2)


def step_back(reason: str) -> None:
    """Remember, for this process and the children to come, that vLLM's own scheduler runs and why."""
    os.environ[FALLBACK_REASON] = reason
    print(f"slidingserve: fallback to vLLM's own scheduler: {reason}", file=sys.stderr, flush=True)  # noqa: T201


def drop_scheduler(argv: list[str]) -> None:
    """Take our --scheduler-cls out of vLLM's arguments again, in place."""
    at = argv.index("--scheduler-cls")
    del argv[at : at + 2]
