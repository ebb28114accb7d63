"""From `slidingserve serve` to vLLM's own command line: directories, environment and arguments.

Nothing here imports vLLM or prometheus_client: the environment must be set before either is imported. The
last step, the gate and the call of vLLM, is `slidingserve.vllm_adapter.entry`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path

from slidingserve import processor
from slidingserve.config import ConfigError, loads
from slidingserve.config_json import FILE
from slidingserve.processor import ProcessorError
from slidingserve.server import address, emulation, logs
from slidingserve.server.emulation import Emulation, EmulationError
from slidingserve.server.live import read_file, read_promises, unreadable
from slidingserve.server.runtime import Runtime

PACKAGE = Path(__file__).resolve().parent.parent
SCHEDULER = "slidingserve.vllm_adapter.scheduler.make_scheduler"
MIDDLEWARE = "slidingserve.server.middleware.PromiseMiddleware"
PLUGINS = ("slidingserve", "slidingserve_cpu", "slidingserve_routes")
# Groups that vLLM loads whole when VLLM_PLUGINS is unset. Endpoint plugins are not among them: vLLM wants
# them named.
OPEN_GROUPS = (
    "vllm.general_plugins",
    "vllm.platform_plugins",
    "vllm.io_processor_plugins",
    "vllm.stat_logger_plugins",
)
# No model is compiled, looked up or reported where there is none.
EMULATED_ENV = {"TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


class LaunchError(Exception):
    """The engine cannot start as asked; the message is one line for the user."""


@dataclass(frozen=True)
class Launch:
    """Everything that must be in place before vLLM is imported: environment to set and vLLM's argument
    vector."""

    runtime: Runtime
    env: Mapping[str, str]
    argv: Sequence[str]


def prepare(
    model: str | None,
    vllm_args: Sequence[str],
    *,
    config_dir: Path | None,
    state_dir: Path | None,
    fallback: bool,
    profile_dir: Path | None = None,
    calibration_seconds: float | None = None,
    emulate: Emulation | None = None,
    log_json: bool = False,
) -> Launch:
    """Check the arguments, make and wipe the state directory, and say how to start vLLM.

    Raises LaunchError with a sentence that names the argument and what to do.
    """
    for taken in ("--scheduler-cls", "--scheduler_cls"):
        if any(arg == taken or arg.startswith(taken + "=") for arg in vllm_args):
            raise LaunchError(
                f"{taken}: SlidingServe is the scheduler here; for another one run `vllm serve`"
            )
    if config_dir is not None:
        _check_config(config_dir)
    if log_json:
        _check_log(vllm_args)
    compiled = {**compiled_env(), **processor_env()}
    os.environ.update(compiled)  # a hardware profile is compiled code too
    try:
        # Checked before anything is made.
        profile = None if emulate is None else emulation.checked(emulate)
        if emulate is not None:
            emulation.writable(emulate)
    except EmulationError as error:
        raise LaunchError(str(error)) from None
    runtime = Runtime(
        state_dir=_fresh_state_dir(state_dir),
        config_dir=config_dir,
        profile_dir=profile_dir or default_profile_dir(),
        fallback_allowed=fallback,
    )
    if calibration_seconds is not None:
        runtime = replace(runtime, calibration_seconds=calibration_seconds)
    env = {
        **runtime.to_env(),
        **compiled,
        **address.workers_env(),
        "PROMETHEUS_MULTIPROC_DIR": str(runtime.metrics_dir),
        "VLLM_PLUGINS": plugin_list(os.environ.get("VLLM_PLUGINS")),
    }
    if log_json:
        env |= logs.write_configuration(runtime.state_dir)
    vllm_args = address.arguments(vllm_args)
    argv = ["vllm", "serve", *([model] if model else []), *vllm_args]
    if emulate is not None and profile is not None:
        env |= {**emulate.to_env(), **EMULATED_ENV}
        directory = runtime.state_dir / "emulated"
        argv[2:] = emulation.vllm_arguments(profile, model or emulate.profile, vllm_args, directory)
    argv += ["--scheduler-cls", SCHEDULER, "--middleware", MIDDLEWARE]
    return Launch(runtime, env, argv)


def _check_log(vllm_args: Sequence[str]) -> None:
    """Two configurations of one log would fight."""
    for word in vllm_args:
        name = word.partition("=")[0].replace("_", "-")
        if name in ("--log-config-file", "--logging-config") or name.startswith("--logging-config."):
            raise LaunchError(f"--log-json: it is a logging configuration as {name} is; give one of the two")
    if given := os.environ.get(logs.CONFIG_PATH):
        raise LaunchError(f"--log-json: {logs.CONFIG_PATH} is set to {given}; unset it, or drop --log-json")


def _check_config(directory: Path) -> None:
    """Refuse a file without a promise in it: an engine that took a built-in one would answer 400 to every
    request that names its class. Say so where only scheduler settings are wrong: the engine can start."""
    try:
        content = read_file(directory / FILE)
    except (FileNotFoundError, NotADirectoryError):
        remedy = "give a directory that holds one"
        raise LaunchError(f"--slo-config {directory}: there is no {FILE} in it; {remedy}") from None
    except OSError as error:
        raise LaunchError(f"--slo-config {directory}: {unreadable(error)}") from None
    try:
        loads(content)
    except ConfigError as error:
        told = f"--slo-config {directory / FILE}: {str(error).removeprefix(FILE + ': ')}"
        try:
            read_promises(content)
        except ConfigError:
            raise LaunchError(told) from None
        kept = "its classes hold, with built-in scheduler settings"
        logs.say(f"{told}; {kept}", "WARNING")


def cache_root(env: Mapping[str, str] = os.environ) -> Path:
    """Where the product keeps files between starts."""
    default = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache", "slidingserve")
    return Path(env.get("SLIDINGSERVE_CACHE") or default)


def default_profile_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Where calibration profiles are kept between starts."""
    return cache_root(env) / "profiles"


def compiled_env(env: Mapping[str, str] = os.environ, package: Path = PACKAGE) -> dict[str, str]:
    """Where numba keeps compiled policies: beside their source if that can be written, else in our cache,
    else for the life of this engine. Without a place numba refuses to import them."""
    if env.get("NUMBA_CACHE_DIR") or os.access(package, os.W_OK):
        return {}
    directory = cache_root(env) / "compiled"
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        if os.access(directory, os.W_OK):
            return {"NUMBA_CACHE_DIR": str(directory)}
    directory = Path(tempfile.mkdtemp(prefix="slidingserve-compiled-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return {"NUMBA_CACHE_DIR": str(directory)}


def processor_env(env: Mapping[str, str] = os.environ, cpuinfo: str | None = None) -> dict[str, str]:
    """Caches of machine code by kind of processor (numba's own key has it; PyTorch's and vLLM's have not),
    and what keeps libraries to the instruction sets that the user allows. Raises LaunchError."""
    try:
        mask = processor.masked(env)
    except ProcessorError as error:
        raise LaunchError(str(error)) from None
    key = processor.cache_key(processor.read() if cpuinfo is None else cpuinfo, mask)
    home = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or "~").expanduser() / ".cache")
    roots = {"VLLM_CACHE_ROOT": env.get("VLLM_CACHE_ROOT") or str(home / "vllm")}
    if user := env.get("TORCHINDUCTOR_CACHE_DIR"):
        roots["TORCHINDUCTOR_CACHE_DIR"] = user
    keyed = {
        name: root if Path(root).name == key else f"{root.rstrip('/')}/{key}" for name, root in roots.items()
    }
    return {**keyed, **processor.library_environment(mask)}


def plugin_list(user: str | None) -> str:
    """Join our plugins with the user's VLLM_PLUGINS, or, where that is unset, with all that vLLM would load
    by itself.

    The variable is an allowlist: naming only ours would switch off, for example, the LoRA resolvers.
    """
    if user is None:
        others = [point.name for group in OPEN_GROUPS for point in entry_points(group=group)]
    else:
        others = [name for name in user.split(",") if name]
    return ",".join(dict.fromkeys([*PLUGINS, *others]))


def _fresh_state_dir(wanted: Path | None) -> Path:
    """Make the state directory, lock it for the life of this process and wipe what an earlier engine left
    in it.

    Only our own sub-directories are wiped, never the user's directory.
    """
    if wanted is None:
        _sweep(Path(tempfile.gettempdir()))
        state = Path(tempfile.mkdtemp(prefix="slidingserve-"))
        atexit.register(shutil.rmtree, state, ignore_errors=True)
    else:
        state = wanted
        try:
            state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchError(
                f"--state-dir {wanted}: {error.strerror}; give a directory that can be written"
            ) from None
    _lock(state)
    for part in (Runtime(state).metrics_dir, Runtime(state).process_dir):
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir()
        except OSError as error:
            raise LaunchError(f"--state-dir {part}: {error.strerror}; remove it, or give another") from None
    return state


def _sweep(parent: Path) -> None:
    """Remove what engines that were killed left behind: our directories whose lock nobody holds."""
    for lock in parent.glob("slidingserve-*/lock"):
        try:
            with lock.open() as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
        except OSError:
            continue  # in use, or another user's


def _lock(state: Path) -> None:
    """Hold `state`/lock until this process ends: two engines in one directory would mix their metrics."""
    try:
        handle = os.open(state / "lock", os.O_CREAT | os.O_RDWR, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LaunchError(f"--state-dir {state}: another engine uses it; give each engine its own") from None
    except OSError as error:
        raise LaunchError(
            f"--state-dir {state}: {error.strerror}; give a directory that can be written"
        ) from None
