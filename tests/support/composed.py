"""A stack in containers, as its operator drives it: `docker compose` and `cairn` inside the gateway's container."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
OURS = ("gateway", "embedder", "retriever", "answerer", "ingest-consumer")


@dataclass(frozen=True)
class Composed:
    """The stack that docker-compose.yaml and .env of this checkout describe, at `url`."""

    url: str
    env: dict[str, str]
    http: httpx.Client

    def compose(self, *arguments: str, check: bool = True) -> str:
        """`docker compose ...`; COMPOSE names another command for it."""
        command = [*shlex.split(os.environ.get("COMPOSE", "docker compose")), *arguments]
        return run(command, check=check)

    def cairn(self, *arguments: str, check: bool = True) -> str:
        """The command line in the gateway's container."""
        return self.compose("exec", "-T", "gateway", "cairn", *arguments, check=check)

    def containers(self, service: str) -> list[dict[str, Any]]:
        """What the engine says of each running container of a service."""
        names = self.compose("ps", "--quiet", service).split()
        found: list[dict[str, Any]] = json.loads(run(["docker", "inspect", *names])) if names else []
        return sorted(found, key=lambda container: str(container["Name"]))


def run(command: list[str], *, check: bool = True) -> str:
    """Standard output of a command; what it said where it failed."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    if check and done.returncode:
        raise AssertionError(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def read_env(path: Path) -> dict[str, str]:
    """The variables of a file that deploy/compose/env.sh wrote."""
    return dict(
        line.split("=", 1) for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")
    )
