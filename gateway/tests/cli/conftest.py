"""A real HTTP server that keeps the gateway's contract in memory, and a runner for the command line."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from typer.testing import CliRunner, Result

from cairn_gateway.cli.client import Cairn
from cairn_gateway.cli.main import app

KEY = "test-key"
MAX_ITEMS = 200
CRASH = 0
"""As a status: the connection ends without an answer."""
Json = dict[str, Any]


@dataclass
class Reply:
    """What the server answers; `body` is JSON unless it is bytes."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def problem(status: int, detail: str, **extra: Any) -> Reply:
    """An RFC 9457 answer, as the gateway's."""
    body = {"type": "about:blank", "title": "Refused", "status": status, "detail": detail, **extra}
    return Reply(status, body, {"content-type": "application/problem+json"})


class FakeGateway:
    """Runbooks, users and executions in memory. An event meets its `fate` when it was asked for `looks` times."""

    def __init__(self) -> None:
        self.url = ""
        self.key: str | None = KEY
        self.runbooks: dict[str, Json] = {}
        self.users: dict[str, Json] = {}
        self.executions: dict[str, Json] = {}
        self.events: dict[str, str] = {}
        self.asked: dict[str, int] = {}
        self.looks = 2
        self.fate = "searchable"
        self.too_large: set[str] = set()
        self.unacceptable: set[str] = set()
        self.answer: Json = {"answer": "I don't have a runbook covering that", "mode": "refused", "sources": []}
        self.results: list[Json] = []
        self.stream: list[tuple[str, Any]] = []
        self.status: Json = {"status": "ok", "version": "0.1.0", "dependencies": {"mongo": "ok"}}
        self.differences: list[dict[str, list[Json]]] = [{}]
        self.plans: list[Json] = []
        self.repos: dict[str, Json] = {}
        self.sync_error: str | None = None
        self.requests: list[Seen] = []
        self.talk: list[tuple[Seen, Reply]] = []
        self.scripted: list[Reply | None] = []
        self.replies: dict[tuple[str, str], Reply] = {}

    def handle(self, seen: Seen) -> Reply:
        self.requests.append(seen)
        if self.scripted and (reply := self.scripted.pop(0)) is not None:
            return reply
        if self.key is not None and seen.headers.get("authorization") != f"Bearer {self.key}":
            return problem(401, "a valid API key is needed")
        fixed = self.replies.get((seen.method, seen.path))
        if fixed is not None:
            return fixed
        name, _, rest = seen.path.removeprefix("/").partition("/")
        route: Callable[[Seen, str], Reply] | None = getattr(self, f"{seen.method.lower()}_{name}", None)
        return route(seen, unquote(rest)) if route else problem(404, "Not Found")

    def refuse(self, method: str, path: str, status: int, detail: str, **extra: Any) -> None:
        """From now on answer with a problem."""
        self.replies[method, path] = problem(status, detail, **extra)

    def script(self, *replies: Reply | None) -> None:
        """Answer the next requests so; None answers as usual."""
        self.scripted += replies

    def post_ask(self, seen: Seen, _: str) -> Reply:
        if seen.json().get("stream"):
            lines = [f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in self.stream]
            return Reply(200, b": hello\n\n" + "".join(lines).encode(), {"content-type": "text/event-stream"})
        return Reply(200, self.answer)

    def post_search(self, seen: Seen, _: str) -> Reply:
        return Reply(200, {"results": self.results, "mode": seen.json().get("mode", "hybrid"), "degraded": []})

    def post_runbooks(self, seen: Seen, rest: str) -> Reply:
        assert rest == "import"
        body = seen.json()
        if len(body["items"]) > MAX_ITEMS:
            return problem(422, "items: at most 200", field="items")
        for number, item in enumerate(body["items"]):
            if item["path"] in self.unacceptable:
                return problem(422, "not valid text", field=f"items.{number}.markdown")
        if self.too_large & {item["path"] for item in body["items"]}:
            return problem(413, "the body is over 10 bytes", field="body")
        return Reply(200, {"results": [self._import(body, item) for item in body["items"]]})

    def _import(self, body: Json, item: Json) -> Json:
        path, markdown = item["path"], item["markdown"]
        if not markdown.strip():
            return {"path": path, "id": None, "status": "rejected", "reason": "the page is empty", "field": "markdown"}
        runbook_id = (body.get("prefix") or "") + path.rsplit(".", 1)[0].replace("/", "-")
        stored = self._store(runbook_id, markdown, path)
        return {"path": path, **stored}

    def _store(self, runbook_id: str, markdown: str, path: str | None) -> Json:
        old = self.runbooks.get(runbook_id)
        if old and old["markdown"] == markdown:
            status, revision, event_id = "unchanged", old["revision"], old["event_id"]
        else:
            status, revision = ("changed", old["revision"] + 1) if old else ("created", 1)
            event_id = str(uuid.uuid4())
            self.events[event_id] = "queued"
        title = markdown.strip().splitlines()[0].lstrip("# ")
        self.runbooks[runbook_id] = {
            "id": runbook_id, "title": title, "markdown": markdown, "revision": revision, "path": path, "steps": 1,
            "service": None, "severity": None, "event_id": event_id,
        }  # fmt: skip
        warnings = ["front matter: severity is a mapping, so it is left out"] if "severity: {}" in markdown else []
        stored = {"id": runbook_id, "status": status, "revision": revision, "event_id": event_id, "steps": 1}
        return stored | {"warnings": warnings}

    def put_runbooks(self, seen: Seen, runbook_id: str) -> Reply:
        old = self.runbooks.get(runbook_id)
        match = seen.headers.get("if-match")
        if seen.headers.get("if-none-match") == "*" and old:
            return problem(412, "the runbook exists already")
        if match is not None and match.strip('"') != str(old["revision"] if old else 0):
            return problem(412, "the runbook has another revision")
        if not seen.headers["content-type"].startswith("text/markdown"):
            return problem(422, "steps: Field required", field="steps")
        return Reply(200, self._store(runbook_id, seen.body.decode(), seen.query.get("path")))

    def get_runbooks(self, seen: Seen, runbook_id: str) -> Reply:
        if not runbook_id:
            ids = sorted(self.runbooks)
            after = seen.query.get("after", "")
            page = [name for name in ids if name > after][:2]
            following = page[-1] if page and page[-1] != ids[-1] else None
            kept = [_without(self.runbooks[name], "markdown", "event_id") for name in page]
            return Reply(200, {"runbooks": kept, "next": following})
        if runbook_id not in self.runbooks:
            return problem(404, f"there is no runbook {runbook_id}")
        stored = self.runbooks[runbook_id]
        if seen.headers["accept"] == "text/markdown":
            return Reply(200, stored["markdown"].encode(), {"content-type": "text/markdown"})
        step = {
            "number": 1,
            "label": "1",
            "section": "Steps",
            "body": stored["markdown"],
            "line_start": 1,
            "line_end": 3,
        }
        return Reply(200, stored | {"steps": [step], "markdown": True})

    def delete_runbooks(self, _: Seen, runbook_id: str) -> Reply:
        stored = self.runbooks.pop(runbook_id, None)
        if stored is None:
            return problem(404, f"there is no runbook {runbook_id}")
        event_id = str(uuid.uuid4())
        self.events[event_id] = "queued"
        return Reply(200, {"id": runbook_id, "revision": stored["revision"] + 1, "event_id": event_id})

    def post_ingest(self, seen: Seen, rest: str) -> Reply:
        assert rest == "states"
        wanted = seen.json()["event_ids"]
        states = {name: {"event_id": name, "state": self._state(name)} for name in wanted if name in self.events}
        return Reply(200, {"states": states, "unknown": [name for name in wanted if name not in self.events]})

    def get_ingest(self, _: Seen, event_id: str) -> Reply:
        if event_id not in self.events:
            return problem(404, f"there is no event {event_id}")
        return Reply(200, {"event_id": event_id, "state": self._state(event_id)})

    def _state(self, event_id: str) -> str:
        self.asked[event_id] = self.asked.get(event_id, 0) + 1
        if self.events[event_id] == "queued" and self.asked[event_id] >= self.looks:
            self.events[event_id] = self.fate
        return self.events[event_id]

    def put_users(self, seen: Seen, user_id: str) -> Reply:
        return self._put(self.users, user_id, seen)

    def put_executions(self, seen: Seen, execution_id: str) -> Reply:
        return self._put(self.executions, execution_id, seen)

    def _put(self, kept: dict[str, Json], identifier: str, seen: Seen) -> Reply:
        new = {"id": identifier, **seen.json()}
        old = kept.get(identifier)
        kept[identifier] = new
        status = "unchanged" if old == new else "changed" if old else "created"
        return Reply(201 if old is None else 200, new | {"status": status})

    def get_users(self, _seen: Seen, _: str) -> Reply:
        blank: Json = {"name": "N", "role": "reader", "email": None, "team": None, "keys": []}
        return Reply(200, {"users": [blank | user for user in self.users.values()]})

    def post_users(self, _: Seen, rest: str) -> Reply:
        user_id = rest.removesuffix("/keys")
        if user_id not in self.users:
            return problem(404, f"there is no user {user_id}")
        return Reply(201, {"user_id": user_id, "key_id": "k1", "key": "cairn_secret"})

    def get_executions(self, seen: Seen, _: str) -> Reply:
        wanted = seen.query.get("runbook_id")
        found = [item for item in self.executions.values() if wanted in {None, item["runbook_id"]}]
        start, limit = int(seen.query.get("after", 0)), int(seen.query["limit"])
        following = str(start + limit) if start + limit < len(found) else None
        return Reply(200, {"executions": found[start : start + limit], "next": following})

    def post_executions(self, seen: Seen, _: str) -> Reply:
        return self._put(self.executions, "made", seen)

    def delete_users(self, _: Seen, rest: str) -> Reply:
        return Reply(204, b"") if rest == "user-a/keys/k1" else problem(404, "there is no such key")

    def get_status(self, _seen: Seen, _: str) -> Reply:
        return Reply(200, self.status)

    def post_verify(self, seen: Seen, _: str) -> Reply:
        found = self.differences[0] if len(self.differences) == 1 else self.differences.pop(0)
        repaired = [item["runbook_id"] for items in found.values() for item in items] if seen.json()["repair"] else []
        counts = {kind: len(items) for kind, items in found.items()}
        body = {"ok": not found, "checked": 3, "indexed": 2, "counts": counts, "differences": found, "pending": []}
        return Reply(200, body | {"repaired": repaired})

    def post_repos(self, seen: Seen, rest: str) -> Reply:
        if rest:
            name = rest.removesuffix("/sync")
            event_id = str(uuid.uuid4())
            self.events[event_id] = "queued"
            known = name in self.repos
            return Reply(202, {"name": name, "event_id": event_id}) if known else problem(404, f"there is no {name}")
        body = {"include": ["**/*.md"], "exclude": []} | seen.json()
        setting = {"path": "/webhooks/github", "events": "push", "content_type": "application/json"}
        state: Json = {
            "commit": "0123456789abcdef", "files": 3, "written": 2, "deleted": 1, "event_ids": [], "error": self.sync_error,
            "skipped": [{"path": "x.md", "reason": "empty"}],
            "warned": [{"path": "y.md", "blob": "b", "warnings": ["front matter: tags is a mapping, so it is left out"]}],
            "synced_at": "2026-01-11T02:14:00Z", "retry_at": None,
        }  # fmt: skip
        webhook = None if body["url"].startswith("file:") else setting | {"setting": "GITHUB_WEBHOOK_SECRET"}
        self.repos[body["name"]] = body | {"webhook": webhook, "state": state, "origin": "api"}
        return Reply(201, self.repos[body["name"]])

    def get_repos(self, _: Seen, name: str) -> Reply:
        if name and name not in self.repos:
            return problem(404, f"there is no {name}")
        return Reply(200, self.repos[name] if name else {"repos": list(self.repos.values())})

    def delete_repos(self, _: Seen, name: str) -> Reply:
        gone = self.repos.pop(name, None)
        return Reply(200, {"name": name, "event_id": None}) if gone else problem(404, f"there is no {name}")

    def get_admin(self, _seen: Seen, _: str) -> Reply:
        return Reply(200, {"ok": all(plan["index"] for plan in self.plans), "plans": self.plans})


def _without(value: Json, *names: str) -> Json:
    return {name: member for name, member in value.items() if name not in names}


def _handler(gateway: FakeGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            """Nothing: pytest shows failures."""

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = gateway.handle(Seen(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body))
            gateway.talk.append((gateway.requests[-1], reply))
            if reply.status == CRASH:
                self.close_connection = True
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in ({"content-type": "application/json"} | reply.headers).items():
                self.send_header(name, value)
            if reply.status != 204:
                self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = _any  # noqa: N815 - http.server looks for these names

    return Handler


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeGateway]:
    """A gateway of its own, named by the environment; the test starts in an empty folder."""
    fake = FakeGateway()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("CAIRN_URL", fake.url)
    monkeypatch.setenv("CAIRN_API_KEY", KEY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CAIRN_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cairn() -> Callable[..., Result]:
    """Run `cairn ARGS` in this process, as in a pipe; `stdin` is what is piped in."""

    def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=stdin, prog_name="cairn")

    return run


@pytest.fixture
def reply() -> type[Reply]:
    """How a test writes an answer of the server."""
    return Reply


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits take no time; the list has how long they would have been."""
    waits: list[float] = []
    clock = {"sleep": waits.append, "monotonic": lambda: sum(waits)}
    monkeypatch.setattr(Cairn.__init__, "__kwdefaults__", clock)
    return waits
