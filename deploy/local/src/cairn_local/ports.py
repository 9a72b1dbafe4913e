"""Which ports to listen on: the wanted one when it is free, else one that the kernel offers."""

from __future__ import annotations

import socket
from collections.abc import Collection

HOST = "127.0.0.1"


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: TIME_WAIT does not count
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str = HOST) -> int:
    """A port nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def choose(wanted: int, taken: Collection[int] = (), host: str = HOST) -> int:
    """`wanted` if it is free and not in `taken`, else another one."""
    if wanted not in taken and is_free(wanted, host):
        return wanted
    while True:
        port = free_port(host)
        if port not in taken:
            return port
