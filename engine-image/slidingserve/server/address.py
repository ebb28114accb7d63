"""Where the API server listens when nobody says: on IPv4 and IPv6 alike, as far as this machine has them.

Place in the flow: the launcher completes vLLM's arguments (`arguments`); a pod gets the same command line in
clusters of either family and of both. vLLM alone would listen on IPv4 only.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from slidingserve.server import logs

AUTO = "auto"
BOTH, IPV4 = "::", "0.0.0.0"  # noqa: S104 - the engine's port is meant for its Service
GLOO = "GLOO_SOCKET_IFNAME"
_OPTION = "--host"
_HOST_LINE = re.compile(r"^\s*host\s*:", re.MULTILINE)


def arguments(given: Sequence[str]) -> list[str]:
    """vLLM's arguments with a --host that both families reach, unless they say where to listen already.

    `--host auto` asks for it by name.
    """
    words = _without_auto(given)
    if _says_where(words):
        return words
    host, why = every_family()
    if why:
        logs.say(f"listening on {host} alone: {why}", "INFO")
    return [*words, _OPTION, host]


def every_family() -> tuple[str, str]:
    """The address to listen on, and why it is not one for both families, or "".

    A probe: the kernel may have IPv6 left out or switched off.
    """
    try:
        both_families((BOTH, 0)).close()
    except OSError as error:
        return IPV4, f"this machine has no IPv6 ({error.strerror})"
    return BOTH, ""


def workers_env(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What lets workers of one machine find each other where loopback has no IPv4: gloo takes a host name
    that is not its own for 127.0.0.1, and fails. A choice of the user's stays."""
    return {} if GLOO in env or _has_ipv4_loopback() else {GLOO: "lo"}


def _has_ipv4_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError:
        return False
    return True


def both_families(address: tuple[str, int], *, reuse_port: bool = False) -> socket.socket:
    """A socket that is bound to `address` of IPv6 and takes IPv4 there too, whatever net.ipv6.bindv6only
    says. Raises OSError."""
    made = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _without_auto(given: Sequence[str]) -> list[str]:
    words: list[str] = []
    for word in given:
        if word == AUTO and words and words[-1] == _OPTION:
            words.pop()
        elif word != f"{_OPTION}={AUTO}":
            words.append(word)
    return words


def _says_where(words: Sequence[str]) -> bool:
    for at, word in enumerate(words):
        name, _, value = word.partition("=")
        # argparse takes a beginning of a name too; --ho is the shortest that only --host has.
        if (len(name) >= 4 and _OPTION.startswith(name)) or name in ("--uds", "--headless"):
            return True
        if name == "--config" and _names_host(Path(value or (words[at + 1] if at + 1 < len(words) else ""))):
            return True
    return False


def _names_host(file: Path) -> bool:
    """Whether vLLM's own configuration file says where to listen; it refuses one that cannot be read."""
    try:
        return bool(_HOST_LINE.search(file.read_text()))
    except OSError:
        return True
