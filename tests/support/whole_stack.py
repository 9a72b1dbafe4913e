"""The whole one-machine stack in a folder of its own, driven as its user drives it: `cairn-local` and `cairn`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from model_server import ModelServer

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
T = TypeVar("T")

# Services log their progress by these variables of the stack's own; a test must not inherit a running stack's.
INHERITED = ("CAIRN_URL", "CAIRN_API_KEY", "CAIRN_HOME", "LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL", "BROKER")


@dataclass
class Stack:
    """A running stack; `http` has the admin's key."""

    home: Path
    environment: dict[str, str]
    model: ModelServer
    http: httpx.Client = field(init=False)

    def run(self, *command: str, check: bool = True, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run a program of the project."""
        done = subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        response = self.http.post("/ask", json={"question": question, **options})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def search(self, query: str, **options: Any) -> list[dict[str, Any]]:
        response = self.http.post("/search", json={"query": query, **options})
        assert response.status_code == 200, response.text
        hits: list[dict[str, Any]] = response.json()["results"]
        return hits

    def put(self, runbook_id: str, markdown: str) -> dict[str, Any]:
        response = self.http.put(f"/runbooks/{runbook_id}", content=markdown, headers={"content-type": "text/markdown"})
        assert response.status_code in (200, 201), response.text
        stored: dict[str, Any] = response.json()
        return stored

    def settled(self, event_id: str) -> str:
        """The state in which an event ends, within a minute."""
        return until(lambda: self._end(event_id), f"event {event_id} to be settled")

    def _end(self, event_id: str) -> str | None:
        response = self.http.get(f"/ingest/{event_id}")
        state = response.json().get("state") if response.status_code == 200 else None
        return state if state in ("searchable", "superseded", "dead") else None

    def processes(self) -> dict[str, dict[str, Any]]:
        processes: dict[str, dict[str, Any]] = json.loads(
            self.run("cairn-local", "status", "--json", check=False).stdout
        )["processes"]
        return processes

    def state(self) -> dict[str, dict[str, Any]]:
        """The processes as the supervisor knows them, without the time that starting a program takes."""
        state: dict[str, dict[str, Any]] = json.loads((self.home / "state.json").read_text())["processes"]
        return state

    def metric(self, url: str, name: str) -> float:
        """The sum of a metric's samples over all labels."""
        text = httpx.get(f"{url}/metrics", trust_env=False).text
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(rf"{name}({{| )", line))


def until(attempt: Callable[[], T | None], what: str, seconds: float = 60) -> T:
    """Poll until `attempt` gives something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            found = attempt()
        except httpx.HTTPError:
            found = None
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


@contextmanager
def running_stack(home: Path, **settings: str) -> Iterator[Stack]:
    """A stack under `home`; it is stopped, with everything that it started, at the end."""
    model = ModelServer()
    environment = {name: value for name, value in os.environ.items() if name not in INHERITED}
    environment |= {
        "CAIRN_HOME": str(home),
        "LLM_BASE_URL": model.url,
        "LLM_MODEL": "quoting",
        "LLM_API_KEY": "not-a-secret",
        "ASK_DEADLINE": "20",
        "LLM_ATTEMPT_TIMEOUT": "5",
        "NO_COLOR": "1",
        **settings,
    }
    running = Stack(home, environment, model)
    try:
        running.run("cairn-local", "up", "--detach")
        values = dict(line.split("=", 1) for line in (home / "env").read_text().splitlines() if "=" in line)
        with httpx.Client(
            base_url=values["CAIRN_URL"],
            headers={"authorization": f"Bearer {values['CAIRN_API_KEY']}"},
            timeout=40,
            trust_env=False,
        ) as client:
            running.http = client
            yield running
    finally:
        running.run("cairn-local", "down", check=False)
        model.stop()
