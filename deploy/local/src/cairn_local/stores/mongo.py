"""The MongoDB protocol by SecantusDB. It is GPL: only ever a process of its own, never imported."""

from __future__ import annotations

from pathlib import Path

from cairn_local import probes
from cairn_local.home import private_folder
from cairn_local.programs import Program, Server, python_module


def server(data: Path, port: int) -> Server:
    """A single-node replica set on 127.0.0.1: transactions and change streams work."""
    configuration = data / "secantusd.toml"

    def prepare() -> None:
        private_folder(data)
        configuration.touch(mode=0o600)  # empty, and named below: else one in the home folder would be read

    address = f"mongodb://127.0.0.1:{port}/?directConnection=true"
    return Server(
        program=Program(
            name="mongo",
            argv=(
                *(*python_module("secantus"), "--config", str(configuration)),
                *("--host", "127.0.0.1", "--port", str(port), "--storage-path", str(data / "storage")),
                *("--cache-size", "256M", "--log-level", "WARNING"),
                # Without it a SIGKILL loses up to a second of acknowledged writes (tried); with it, none.
                "--sync-on-commit",
            ),
            cwd=data,
        ),
        probe=lambda: probes.mongo(address),
        address=address,
        prepare=prepare,
    )
