"""Cairn's own processes as programs: `python -P -m cairn_X`, configured by environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from cairn_local import probes
from cairn_local.programs import Program, Server, python_module

HOST = "127.0.0.1"


def service(name: str, module: str, port: int, env: Mapping[str, str | None]) -> Server:
    """One process that serves HTTP on `port`, ready when `/health/ready` says so."""
    address = f"http://{HOST}:{port}"
    return Server(
        program=Program(
            name=name,
            argv=python_module(module),
            env={"HOST": HOST, "PORT": str(port), "PYTHONUNBUFFERED": "1", **env},
        ),
        probe=lambda: probes.http(f"{address}/health/ready"),
        address=address,
        ready_timeout=120.0,
    )


def embedder(port: int, env: Mapping[str, str | None]) -> Server:
    """The embedder; loading the model takes some seconds."""
    return service("embedder", "cairn_embedder", port, {"OMP_NUM_THREADS": "2", **env})


def retriever(port: int, env: Mapping[str, str | None]) -> Server:
    """The retriever."""
    return service("retriever", "cairn_retriever", port, {"OMP_NUM_THREADS": "1", **env})


def answerer(port: int, env: Mapping[str, str | None]) -> Server:
    """The answerer."""
    return service("answerer", "cairn_answerer", port, {"OMP_NUM_THREADS": "1", **env})


def consumer(number: int, port: int, env: Mapping[str, str | None]) -> Server:
    """One replica of the ingest consumer."""
    return service(f"ingest-consumer-{number}", "cairn_ingest_consumer", port, {"OMP_NUM_THREADS": "1", **env})


def gateway(port: int, env: Mapping[str, str | None]) -> Server:
    """The gateway, the only one that users talk to."""
    return service("gateway", "cairn_gateway", port, {"OMP_NUM_THREADS": "1", **env})
