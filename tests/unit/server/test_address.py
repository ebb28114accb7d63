"""Where an engine listens when nobody says: in network namespaces of IPv6 alone, IPv4 alone, and both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from slidingserve.server import address

from tests.namespaces import IPV4_ALONE, IPV6_ALONE, KEPT_APART, run

REACHED = """
import socket
from slidingserve.server import address
host = address.arguments(["--port", "1"])[-1]
server = address.both_families((host, 0)) if host == "::" else socket.create_server((host, 0))
server.listen()
port = server.getsockname()[1]
def over(loopback):
    try:
        socket.create_connection((loopback, port), 1).close()
    except OSError:
        return False
    return True
assert address.workers_env({}) == ({} if over("127.0.0.1") else {"GLOO_SOCKET_IFNAME": "lo"})
assert address.workers_env({"GLOO_SOCKET_IFNAME": "eth0"}) == {}
print(host, *(loopback for loopback in ("127.0.0.1", "::1") if over(loopback)))
"""
NO_IPV6 = """
import errno, socket
from slidingserve.server import address
def without(family, kind):
    if family == socket.AF_INET6:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
    return real(family, kind)
real, socket.socket = socket.socket, without
print(*address.arguments([]))
"""


@pytest.mark.parametrize(
    ("setting", "reached"),
    [
        (IPV6_ALONE, ":: ::1"),
        (IPV4_ALONE, ":: 127.0.0.1"),
        (KEPT_APART, ":: 127.0.0.1 ::1"),
    ],
)
def test_an_engine_is_reached_over_every_loopback_there_is(setting: str, reached: str) -> None:
    assert run(setting, [sys.executable, "-c", REACHED]).strip() == reached


def test_a_kernel_without_ipv6_gets_the_address_of_ipv4_and_a_line_that_says_so() -> None:
    """As booted with ipv6.disable=1, which no namespace can show."""
    done = subprocess.run([sys.executable, "-c", NO_IPV6], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["--host", "0.0.0.0"]
    assert done.stderr == (
        "slidingserve: listening on 0.0.0.0 alone: this machine has no IPv6 (Address family not supported by"
        " protocol)\n"
    )


@pytest.mark.parametrize(
    "given", ["--host 1.2.3.4", "--host=::1", "--hos=1.2.3.4", "--uds /tmp/socket", "--headless"]
)
def test_what_says_where_to_listen_stays(given: str) -> None:
    words = ["--port", "1", *given.split()]
    assert address.arguments(words) == words


@pytest.mark.parametrize("given", ["--host auto", "--host=auto", ""])
def test_auto_is_the_default_by_name(given: str) -> None:
    words = address.arguments([*given.split(), "--port", "1"])
    assert words[:3] == ["--port", "1", "--host"]
    assert words[3] in (address.BOTH, address.IPV4)


def test_the_host_of_vllms_own_configuration_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "vllm.yaml"
    file.write_text("port: 1\n")
    assert "--host" in address.arguments(["--config", str(file)])
    file.write_text("port: 1\nhost: 1.2.3.4\n")
    for words in (["--config", str(file)], [f"--config={file}"]):
        assert address.arguments(words) == words
