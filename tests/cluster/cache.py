"""Where things that outlive a checkout are kept, and how processes share it: the harness's lowest layer."""

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from tests.cluster import say
from tests.cluster.needs import cache_root as root

__all__ = [
    "ClusterError",
    "Condition",
    "Users",
    "digest",
    "lock",
    "make",
    "root",
    "step",
    "using",
    "wait_for",
]


class ClusterError(Exception):
    """What went wrong and what to do about it, in words for the person who runs the harness."""


def digest(*parts: str | Path) -> str:
    """12 hex digits over texts and, for a path, the names and bytes of the files below it."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode() + b"\0")
            continue
        for file in sorted(path for path in part.rglob("*") if path.is_file()) if part.is_dir() else [part]:
            total.update(
                file.relative_to(part.parent).as_posix().encode() + b"\0" + file.read_bytes() + b"\0"
            )
    return total.hexdigest()[:12]


@contextlib.contextmanager
def lock(path: Path, waiting: str) -> Iterator[None]:
    """Hold an exclusive lock on `path` (a file made for it); say `waiting` once if someone else has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say.line(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Users:
    """Processes that use one thing; see `using`."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def alone(self) -> bool:
        """Whether nobody else uses it; then nobody else can begin to until this process ends its use."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._file, fcntl.LOCK_SH)  # the failed attempt has given our share up
            return False
        return True


@contextlib.contextmanager
def using(path: Path) -> Iterator[Users]:
    """Be one of the users of what `path` stands for; waits while the last one takes it away."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield Users(file)


def make(kind: str, name: str, key: str, build: Callable[[Path], object]) -> Path:
    """The directory `<cache>/<kind>/<name>-<key>`, made by `build(empty directory)` unless it is there.

    It appears whole or not at all (renamed into place), and is built once when two processes ask for it.
    """
    home = root() / kind
    wanted = home / f"{name}-{key}"
    if wanted.is_dir():
        return wanted
    with lock(home / f".{name}.lock", f"{name}: another process is building it; waiting"):
        if wanted.is_dir():
            return wanted
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home))
        try:
            work.chmod(0o755)
            build(work)
            work.rename(wanted)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return wanted


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is being done and, when it is done, how long it took."""
    begin = time.monotonic()
    say.line(f"{what} ...")
    yield
    say.line(f"{what}: done in {time.monotonic() - begin:.1f} s")


Condition = Callable[[], bool]


def wait_for(what: str, ready: Condition, seconds: float, details: Callable[[], str] = lambda: "") -> None:
    """Poll until `ready`; if it does not come in time, ClusterError with `details` (a log's end, say)."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not there after {seconds:.0f} s\n{details()}".strip())
        time.sleep(0.15)
