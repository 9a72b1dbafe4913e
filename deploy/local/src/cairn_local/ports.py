"""Which ports to listen on: the wanted one when it is free, else the one of the last run, else any free one.

Between a look at a port and the bind of the server that gets it lies a second or more, in which another stack that
starts would find the same port free. A supervisor therefore claims its ports for as long as it lives.
"""

from __future__ import annotations

import json
import random
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from cairn_local.home import private_file

HOST = "127.0.0.1"
OFFERED = range(20_000, 32_000)


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
    """A port nobody listens on, outside the range from which the kernel takes ports for outgoing connections.

    Raises:
        OSError: none was found.
    """
    for port in random.sample(OFFERED, 200):
        if is_free(port, host):
            return port
    raise OSError(f"no free port between {OFFERED.start} and {OFFERED.stop}")


class Claims:
    """Ports this process has taken for servers it is about to start; no other stack of the machine gets them.

    A claim is a bound socket in Linux's abstract namespace (unix(7)): it belongs to the same network namespace as the
    port, is nobody's file, and goes when the process ends, however it ends. Elsewhere there is only the look.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def take(self, port: int) -> bool:
        """Claim `port` if a server could listen on it. Returns whether it is ours now."""
        if port in self._held:
            return True
        if sys.platform != "linux":
            return is_free(port)
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0cairn-local/{HOST}:{port}")
        except OSError:
            claim.close()
            return False
        if not is_free(port):
            claim.close()
            return False
        self._held[port] = claim
        return True

    def release(self) -> None:
        """Give all of them up."""
        while self._held:
            self._held.popitem()[1].close()


def choose(
    wanted: Iterable[int],
    taken: Collection[int] = (),
    *,
    free: Callable[[int], bool] = is_free,
    offer: Callable[[], int] = free_port,
) -> int:
    """The first of `wanted` that is free and not in `taken`, else another one."""
    for port in wanted:
        if port not in taken and free(port):
            return port
    while True:
        port = offer()
        if port not in taken and free(port):
            return port


def assign(
    wanted: Mapping[str, int],
    kept: Mapping[str, int],
    *,
    free: Callable[[int], bool] = is_free,
    offer: Callable[[], int] = free_port,
) -> dict[str, int]:
    """A port for each name: the wanted one, else the one it had last time, else a free one; no two the same."""
    given: dict[str, int] = {}
    for name, wish in wanted.items():
        given[name] = choose((wish, kept.get(name, wish)), given.values(), free=free, offer=offer)
    return given


def load(path: Path) -> dict[str, int]:
    """The ports of the last run; none where the file is missing or damaged."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(name): port for name, port in found.items() if isinstance(port, int)} if isinstance(found, dict) else {}


def save(path: Path, ports: Mapping[str, int]) -> None:
    """Keep the choice for the next run."""
    private_file(path)
    path.write_text(json.dumps(ports, indent=1) + "\n")
