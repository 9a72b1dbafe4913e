"""`cairn backfill` against a running gateway: history becomes the same documents as webhooks write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from dulwich import porcelain
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typer.testing import CliRunner, Result

from cairn_gateway.cli.client import Cairn
from cairn_gateway.cli.exits import Unreachable
from cairn_gateway.cli.main import app
from cairn_gateway.settings import GatewaySettings
from cairn_shared import mongo
from cairn_shared.events import Event, decode

Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]
Serving = Callable[[Starlette], AbstractAsyncContextManager[str]]
Run = Callable[..., Any]
PAYLOADS = Path(__file__).parents[1] / "sources" / "payloads"


def payload(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_bytes())


@pytest.fixture
async def gateway(start_gateway: Start, gateway_settings: GatewaySettings) -> AsyncIterator[httpx.AsyncClient]:
    """It keeps every event in its inbox, where the tests read them."""
    async with start_gateway(gateway_settings.model_copy(update={"inbox": "always"})) as client:
        yield client


@pytest.fixture
def cairn(gateway: httpx.AsyncClient, tmp_path: Path) -> Run:
    """The command line, in a thread: the gateway runs in this event loop."""
    environment = {
        "CAIRN_URL": str(gateway.base_url).rstrip("/"),
        "CAIRN_API_KEY": gateway.headers["authorization"].removeprefix("Bearer "),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "NO_COLOR": "1",
    }

    async def run(*arguments: str, **more: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, ["backfill", *arguments], env={**environment, **more})

    return run


async def kept(database: mongo.Database) -> dict[str, Event]:
    return {str(one["_id"]): decode(bytes(one["value"])) async for one in database["inbox"].find({})}


@asynccontextmanager
async def serving(routes: list[Route]) -> AsyncIterator[str]:
    import contextlib

    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Any:
            yield

    server = Server(uvicorn.Config(Starlette(routes=routes), port=0, log_config=None, ws="none"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


def clone(folder: Path, commits: int) -> Path:
    """A repository with so many commits."""
    porcelain.init(str(folder))
    for number in range(commits):
        (folder / f"f{number % 7}.md").write_text(f"{number}\n")
        porcelain.add(str(folder), [str(folder / f"f{number % 7}.md")])
        porcelain.commit(
            str(folder),
            message=f"Change {number}, PROJ-{number + 1}".encode(),
            author=b"Ada <ada@example.org>",
            committer=b"Ada <ada@example.org>",
            commit_timestamp=1_700_000_000 + number,
            commit_timezone=3600,
        )
    return folder


async def test_a_clone_is_loaded_and_loading_it_again_makes_no_new_events(
    cairn: Run, database: mongo.Database, tmp_path: Path
) -> None:
    folder = clone(tmp_path / "clone", 120)
    done = await cairn("git", str(folder), "--as", "git@github.com:Acme/payments.git")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "120 items, 120 events"
    events = await kept(database)
    assert len(events) == 120
    newest = max(events.values(), key=lambda event: event.version)
    assert newest.subject.startswith("acme/payments@")
    assert newest.payload["title"] == "Change 119, PROJ-120"
    assert newest.payload["paths"] == ["f0.md"]
    assert newest.payload["references"] == ["PROJ-120"]
    assert newest.payload["url"].startswith("https://github.com/acme/payments/commit/")
    assert newest.occurred_at.isoformat() == "2023-11-14T22:15:19+00:00"
    assert {event.type for event in events.values()} == {"commit"}
    await cairn("git", str(folder), "--as", "https://github.com/acme/payments")
    assert len(await kept(database)) == 120


async def test_an_interrupted_load_goes_on_where_it_was(
    cairn: Run, database: mongo.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = clone(tmp_path / "clone", 120)
    original = Cairn.request
    sent: list[int] = []

    def failing(self: Cairn, method: str, path: str, **options: Any) -> httpx.Response:
        if len(sent) == 1:
            raise Unreachable("away")
        sent.append(len(options["body"]["items"]))
        return original(self, method, path, **options)

    monkeypatch.setattr(Cairn, "request", failing)
    broken = await cairn("git", str(folder))
    assert (broken.exit_code, sent) == (4, [50])
    sent.append(0)
    rest = await cairn("git", str(folder))
    assert "going on" in rest.stderr
    assert rest.stdout.splitlines()[-1] == "70 items, 70 events"
    assert len(await kept(database)) == 120
    again = await cairn("git", str(folder))
    assert again.stdout == "120 items, 120 events\n"


async def test_a_shallow_or_missing_repository_is_said(cairn: Run, tmp_path: Path) -> None:
    answer = await cairn("git", str(tmp_path))
    assert (answer.exit_code, "no git repository" in answer.stderr) == (3, True)


async def test_githubs_history_becomes_what_its_webhooks_write(
    cairn: Run, gateway: httpx.AsyncClient, database: mongo.Database
) -> None:
    push, issue = payload("github/push"), payload("github/issue_comment_created")
    pull = payload("github/pull_request_closed")
    limited = ["once"]

    def api_commit(commit: dict[str, Any]) -> dict[str, Any]:
        person = {"name": commit["author"]["name"], "email": commit["author"]["email"], "date": commit["timestamp"]}
        files = [{"filename": path, "status": "added"} for path in commit["added"]]
        files += [{"filename": path, "status": "modified"} for path in commit["modified"]]
        told = {"message": commit["message"], "author": person, "committer": person}
        return {
            "sha": commit["id"],
            "html_url": commit["url"],
            "commit": told,
            "author": {"login": "mira"},
            "files": files,
        }

    commits = {commit["id"]: api_commit(commit) for commit in push["commits"]}
    head = push["after"]

    async def answer(request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer t0ken"
        path = request.url.path.removeprefix("/repos/Acme/payments").strip("/")
        if path == "commits" and limited:
            limited.clear()
            return JSONResponse({}, 403, {"x-ratelimit-remaining": "0", "retry-after": "1"})
        numbered = {f"commits/{sha}": commit for sha, commit in commits.items()}
        found: Any = {
            "": push["repository"],
            "commits/main": commits[head],
            "commits": list(commits.values()) if request.query_params.get("sha") == head else None,
            "issues": [issue["issue"], {**issue["issue"], "number": 88, "pull_request": {}}],
            "pulls": [pull["pull_request"]],
            "issues/comments": [
                {**issue["comment"], "issue_url": "https://api.github.com/repos/Acme/payments/issues/42"}
            ],
            "issues/42": issue["issue"],
            **numbered,
        }[path]
        return JSONResponse(found)

    async with serving([Route("/{path:path}", answer)]) as api:
        done = await cairn("github", "Acme/payments", GITHUB_API_URL=api, GITHUB_TOKEN="t0ken")
    assert done.exit_code == 0, done.output
    events = await kept(database)
    by_subject = {(event.subject, event.payload["part"]): event for event in events.values()}
    assert sorted(by_subject) == [
        ("acme/payments#42", ""),
        ("acme/payments#42", "comment-992"),
        ("acme/payments#88", ""),
        ("acme/payments@0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c", ""),
        (f"acme/payments@{head}", ""),
    ]
    from cairn_gateway.sources import github
    from cairn_gateway.sources.model import Delivery, RunbookRepositories

    delivery = Delivery({"x-github-event": "push"}, json.dumps(push).encode(), next(iter(events.values())).accepted_at)
    webhook = github.translate(delivery, RunbookRepositories()).events[0]
    loaded = by_subject[(webhook.subject, "")]
    assert (loaded.event_id, loaded.version) == (webhook.event_id, webhook.version)
    assert loaded.payload == webhook.payload


async def test_a_repository_that_is_not_there_is_said(cairn: Run) -> None:
    async def nothing(_: Request) -> Response:
        return JSONResponse({}, 404)

    async with serving([Route("/{path:path}", nothing)]) as api:
        answer = await cairn("github", "a/b", GITHUB_API_URL=api)
    assert (answer.exit_code, "no such repository" in answer.stderr) == (3, True)
    assert (await cairn("github", "nonsense")).exit_code == 2


@pytest.mark.parametrize("cloud", [True, False])
async def test_tickets_and_comments_of_both_jiras_are_loaded(cairn: Run, database: mongo.Database, cloud: bool) -> None:
    ticket, comment = payload("jira/issue_updated")["issue"], payload("jira/comment_created")["comment"]
    tickets = [
        {**ticket, "key": f"PROJ-{number}", "fields": {**ticket["fields"], "comment": {"comments": [comment]}}}
        for number in range(1, 61)
    ]

    async def new(request: Request) -> Response:
        if not cloud:
            return JSONResponse({}, 404)
        start = int(request.query_params.get("nextPageToken", "0"))
        page = tickets[start : start + 50]
        following = {"nextPageToken": str(start + 50)} if start + 50 < len(tickets) else {"isLast": True}
        return JSONResponse({"issues": page, **following})

    async def old(request: Request) -> Response:
        start = int(request.query_params["startAt"])
        return JSONResponse({"issues": tickets[start : start + 50], "total": len(tickets), "startAt": start})

    routes = [Route("/rest/api/3/search/jql", new), Route("/rest/api/2/search", old)]
    async with serving(routes) as api:
        done = await cairn("jira", JIRA_URL=api, JIRA_TOKEN="t", JIRA_USER="ada@example.org")
    assert done.stdout.splitlines()[-1] == "120 items, 120 events", done.output
    events = await kept(database)
    assert len({event.subject for event in events.values()}) == 60
    assert (await cairn("jira", JIRA_URL="")).exit_code == 2


async def test_an_item_that_cannot_be_read_harms_no_other(gateway: httpx.AsyncClient, database: mongo.Database) -> None:
    items = [
        {"event": "issues", "payload": payload("github/issues_opened")},
        {"event": "issues", "payload": {"action": "opened"}},
        {"event": "star", "payload": payload("github/star_created")},
    ]
    answer = (await gateway.post("/backfill/github", json={"items": items})).json()
    assert (len(answer["event_ids"]), answer["ignored"]) == (1, 1)
    assert [(one["index"], one["field"]) for one in answer["rejected"]] == [(1, "repository")]
    assert (await gateway.post("/backfill/nobody", json={"items": items})).status_code == 422
