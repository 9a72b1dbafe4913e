"""The whole one-machine stack in a folder of its own, driven as its user drives it: `cairn-local` and `cairn`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
T = TypeVar("T")

# Services log their progress by these variables of the stack's own; a test must not inherit a running stack's.
INHERITED = ("CAIRN_URL", "CAIRN_API_KEY", "CAIRN_HOME", "LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL", "BROKER")


class ModelServer:
    """An OpenAI-compatible model that quotes the first sentence of each excerpt it is shown, citing its id."""

    def __init__(self) -> None:
        outer = self
        self.calls = 0

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.calls += 1
                answer = json.dumps(quote(body["messages"][-1]["content"]))
                if body.get("stream"):
                    chunks = [{"choices": [{"index": 0, "delta": {"content": answer}, "finish_reason": "stop"}]}]
                    payload = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
                    payload += b"data: [DONE]\n\n"
                    kind = "text/event-stream"
                else:
                    message = {"role": "assistant", "content": answer}
                    payload = json.dumps(
                        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
                    ).encode()
                    kind = "application/json"
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


def quote(prompt: str) -> dict[str, Any]:
    """What a careful model would write: each runbook excerpt's first sentence, word for word."""
    claims = []
    for block in re.finditer(r'<<excerpt id="(\w+)" kind="runbook"[^\n]*>>\n(.*?)\n<<end of', prompt, re.DOTALL):
        sentence = re.split(r"(?<=[.:])\s", block[2].replace("**", "").strip(), maxsplit=1)[0]
        claims.append({"text": sentence, "cites": [block[1]]})
    return {"answerable": bool(claims), "claims": claims[:3]}


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
