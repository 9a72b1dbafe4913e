"""A forge's API over real HTTP, as GitHub and GitLab document it, for a list of commits; it can limit, fail and cut."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, dict[str, str], Any]


def sha(number: int) -> str:
    """The id of commit `number`."""
    return f"{number + 1:040x}"


@dataclass
class Provider:
    """The repository `Acme/payments` with commits 0 to `count` - 1. `trouble` is asked before every answer."""

    count: int
    page: int = 100
    trouble: Callable[[int, str], Answer | None] = lambda _number, _path: None
    requests: list[str] = field(default_factory=list)
    url: str = ""
    limit: int | None = None
    """Requests of half an hour, told in headers as GitHub does."""

    def answer(self, target: str) -> Answer:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.requests.append(target)
        trouble = self.trouble(len(self.requests), parts.path)
        found = trouble or self._github(parts.path, query) or self._gitlab(parts.path, query) or (404, {}, {})
        return (found[0], {**self._told(), **found[1]}, found[2])

    def _told(self) -> dict[str, str]:
        if self.limit is None:
            return {}
        left, reset = self.limit - len(self.requests), int(time.time()) + 1800
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(left),
            "x-ratelimit-reset": str(reset),
        }

    def _github(self, path: str, query: dict[str, str]) -> Answer | None:
        root = "/repos/Acme/payments/"
        if not path.startswith(root):
            return None
        what, _, which = unquote(path.removeprefix(root)).partition("/")
        if what == "compare":
            base, after = which.split("...")
            first = next((number for number in range(self.count) if sha(number) == base), None)
            if first is None:
                return 404, {}, {"message": "Not Found"}
            return self._page(path, query, range(first + 1, int(after, 16)), _github, lambda found: {"commits": found})
        if which:
            return 200, {}, {**_github(int(which, 16) - 1), "files": _files(int(which, 16) - 1)}
        return self._page(path, query, range(int(query["sha"], 16) - 1, -1, -1), _github, lambda found: found)

    def _gitlab(self, path: str, query: dict[str, str]) -> Answer | None:
        root = "/projects/Acme%2Fpayments/repository/commits"
        if not path.startswith(root):
            return None
        which = path.removeprefix(root).strip("/").removesuffix("/diff")
        if which:
            changes = [
                {"old_path": "old.md", "new_path": "new.md", "renamed_file": True},
                {"old_path": f"src/{int(which, 16) - 1}.go", "new_path": "", "deleted_file": True},
            ]
            return 200, {}, changes
        base, _, after = query["ref_name"].rpartition("..")
        numbers = range(int(after, 16) - 1, int(base, 16) - 1 if base else -1, -1)
        return self._page(path, query, numbers, _gitlab, lambda found: found)

    def _page(
        self, path: str, query: dict[str, str], numbers: range, one: Callable[[int], Any], whole: Callable[[Any], Any]
    ) -> Answer:
        size, number = min(self.page, int(query["per_page"])), int(query["page"])
        found = [one(commit) for commit in numbers[(number - 1) * size : number * size]]
        more = number * size < len(numbers)
        return 200, {"link": f'<{self.url}{path}?page={number + 1}>; rel="next"'} if more else {}, whole(found)


def moment(number: int) -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=number)


def _github(number: int) -> dict[str, Any]:
    return {
        "sha": sha(number),
        "html_url": f"https://github.com/Acme/payments/commit/{sha(number)}",
        "author": None,
        "commit": {
            "message": f"Change {number}\n\nRefs PAY-{number}",
            "author": {"name": "Ada", "email": "ada@example.org", "date": "2020-01-01T00:00:00Z"},
            "committer": {"name": "GitHub", "date": moment(number).isoformat().replace("+00:00", "Z")},
        },
    }


def _files(number: int) -> list[dict[str, str]]:
    return [
        {"filename": f"src/{number}.go", "status": "modified"},
        {"filename": "new.md", "previous_filename": "old.md", "status": "renamed"},
    ]


def _gitlab(number: int) -> dict[str, Any]:
    return {
        "id": sha(number),
        "message": f"Change {number}\n\nRefs PAY-{number}",
        "author_name": "Ada",
        "committed_date": moment(number).isoformat(),
        "web_url": f"https://gitlab.com/Acme/payments/-/commit/{sha(number)}",
    }


@contextmanager
def serving(provider: Provider) -> Iterator[Provider]:
    """`provider` at an address of this machine, its `url`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if not (self.headers.get("authorization") == "Bearer t" or self.headers.get("private-token") == "t"):
                status, headers, body = 401, dict[str, str](), dict[str, str]()
            else:
                status, headers, body = provider.answer(self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
