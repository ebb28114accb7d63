"""Network namespaces of one command each: they end with it, and touch nothing of this machine's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

IPV6_ALONE = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo"
IPV4_ALONE = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
KEPT_APART = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/bindv6only"
"""Both families, and a kernel that keeps sockets of IPv6 to IPv6."""


def inside(setting: str, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` in a new network namespace after the shell words of `setting`."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *rights, "--net", "sh", "-ec", f'{setting}; exec "$@"', "sh", *command]


def run(setting: str, command: Sequence[str], **options: Any) -> str:
    """What `command` prints there. Raises CalledProcessError."""
    options = {"timeout": 120, "check": True, "stdout": subprocess.PIPE, "text": True, **options}
    return str(subprocess.run(inside(setting, command), **options).stdout)
