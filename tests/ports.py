"""Ports of this machine, for servers that a test starts."""

import socket


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def loopbacks() -> list[str]:
    """Addresses of this machine's loopback: a container may have no IPv6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return ["127.0.0.1", "::1"]
    except OSError:
        return ["127.0.0.1"]
