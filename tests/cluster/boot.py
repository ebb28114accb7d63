"""What starts when this machine boots, and taking back what an installation has added to it.

A Debian package enables its service as it is installed. Ours run only inside the cluster's node, so
`debian.require` looks before and after, and undoes the difference. What was enabled before stays so.
"""

import shutil
import subprocess
from pathlib import Path

ROOT = Path("/")
"""The machine; a file tree in tests."""
_UNITS = ("etc/systemd/system/*.wants/*", "etc/systemd/system/*.requires/*")
_SCRIPTS = "etc/rc[S2345].d/S*"


def enabled() -> set[Path]:
    """Links of systemd's units and System V's scripts that start something at boot."""
    return {link for pattern in (*_UNITS, _SCRIPTS) for link in ROOT.glob(pattern)}


def names(links: set[Path]) -> list[str]:
    """The services that such links start, such as etcd.service and etcd."""
    return sorted({_service(link) for link in links})


def undo(before: set[Path]) -> list[str]:
    """Disable what is enabled now and was not `before`; returns the services.

    Done by systemctl and update-rc.d, so that an upgrade of the package does not enable it again; a link
    that is there after them is removed.
    """
    added = enabled() - before
    for service in names(added):
        _disable(service)
    for link in enabled() - before:
        link.unlink()
    return names(added)


def _service(link: Path) -> str:
    return link.name if link.parent.name.endswith((".wants", ".requires")) else link.name[3:]


def _disable(service: str) -> None:
    unit = "." in service
    if unit and shutil.which("systemctl"):
        command = ["systemctl", "--quiet", f"--root={ROOT}", "disable", service]
    elif not unit and Path("/") == ROOT and shutil.which("update-rc.d"):
        command = ["update-rc.d", service, "disable"]
    else:
        return
    subprocess.run(command, capture_output=True, check=False)
