"""The record of Debian packages that the harness has installed: `clean-all` removes these and no others.

It lies beside the machine's own package data, not in a cache: every checkout and cache of this machine shares
the packages.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import boot
from tests.cluster.cache import ClusterError

RECORD = Path("/var/lib/slidingserve/packages.json")


@dataclass(frozen=True)
class Removal:
    """What `clean-all` may do: packages to remove, and those of ours that stay, each with the reason."""

    remove: tuple[str, ...]
    stay: Mapping[str, str]


def there() -> dict[str, int]:
    """Every installed package with its size in bytes; empty where there is no dpkg."""
    if not shutil.which("dpkg-query"):
        return {}
    form = "${db:Status-Abbrev}\t${Package}\t${Installed-Size}\n"
    listed = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True)
    rows = (line.split("\t") for line in listed.stdout.splitlines())
    return {name: int(size or 0) * 1024 for status, name, size in rows if status.startswith("ii")}


def recorded(record: Path | None = None) -> list[str]:
    """The packages that we have installed."""
    try:
        names = json.loads((record or RECORD).read_text())["packages"]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError):
        raise ClusterError(
            f"{record or RECORD} is not the harness's record of packages: look at it, then delete it"
        ) from None
    return [str(name) for name in names]


def add(packages: Iterable[str], record: Path | None = None) -> None:
    """Note packages that have just been installed."""
    path = record or RECORD
    names = sorted({*recorded(path), *packages})
    if not names:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"packages": names}, indent=1) + "\n")


def plan(ours: Iterable[str], present: Iterable[str], served: Iterable[str], simulated: str) -> Removal:
    """Decide which of our packages may go.

    Args:
        ours: what the record names.
        present: what is installed now.
        served: our packages whose service has been enabled for boot since: somebody uses them.
        simulated: what `apt-get -s remove` says of the rest; more than ours in it and nothing is removed.
    """
    here = set(ours) & set(present)
    stay = dict.fromkeys(sorted(here & set(served)), "its service was enabled for boot since")
    going = here - set(stay)
    others = sorted(set(re.findall(r"^(?:Remv|Purg) (\S+)", simulated, re.MULTILINE)) - here)
    if others:
        reason = f"other packages need it: {', '.join(others)}"
        return Removal((), {**dict.fromkeys(sorted(going), reason), **stay})
    return Removal(tuple(sorted(going)), stay)


def decide() -> Removal:
    """`plan` for this machine; asks apt what else would go, and changes nothing."""
    present = there()
    ours = [name for name in recorded() if name in present]
    served = [name for name in ours if _serves(name)]
    going = sorted(set(ours) - set(served))
    simulated = _apt("-s", "remove", *going) if going else ""
    return plan(ours, present, served, simulated)


def remove(packages: Iterable[str]) -> None:
    """Remove packages and strike them off the record; their settings go, too."""
    names = list(packages)
    if names:
        _apt("purge", "-qq", "-y", *names)
    left = sorted(set(recorded()) - set(names))
    if left:
        RECORD.write_text(json.dumps({"packages": left}, indent=1) + "\n")
    else:
        RECORD.unlink(missing_ok=True)
        if RECORD.parent.is_dir() and not any(RECORD.parent.iterdir()):
            RECORD.parent.rmdir()


def _serves(package: str) -> bool:
    """Whether a service of the package starts at boot."""
    listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False).stdout
    services = {Path(line).name for line in listed.splitlines() if "/systemd/system/" in line}
    return bool(services & set(boot.names(boot.enabled())))


def _apt(*arguments: str) -> str:
    done = subprocess.run(
        ["apt-get", *arguments], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise ClusterError(f"apt-get {' '.join(arguments[:3])} failed:\n{said}")
    return done.stdout
