"""`cairn backfill`: load what happened before the webhooks were set up. May be interrupted and run again."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.backfill.items import Cursor, Item, Json, state_folder
from cairn_gateway.cli.client import Cairn, as_object, connect
from cairn_gateway.cli.exits import Negative, NotAllowed, Rejected, Unreachable, UsageError
from cairn_gateway.cli.options import AsJson

if TYPE_CHECKING:
    from cairn_shared.repositories.forge import Forge

app = typer.Typer(
    help="Load history from a provider or a clone; interrupted, it goes on where it was.", no_args_is_help=True
)

BATCH = 50
BATCH_BYTES = 4 * 1024 * 1024
PATIENCE = 120.0
LONGEST_WAIT = 3700.0

Max = Annotated[int, typer.Option("--max", min=1, help="At most so many of each kind, the newest.")]
Restart = Annotated[bool, typer.Option("--restart", help="Begin anew instead of going on.")]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="backfill")


@app.command("github")
def github(
    repository: Annotated[str, typer.Argument(metavar="OWNER/REPO")],
    *,
    limit: Max = 1000,
    restart: Restart = False,
    as_json: AsJson = False,
) -> None:
    """Load commits, issues, pull requests and comments. Reads GITHUB_TOKEN and GITHUB_API_URL."""
    from cairn_gateway.cli.backfill.github import github_items

    if repository.count("/") != 1 or not all(repository.split("/")):
        raise UsageError(f"{repository!r} is no repository: OWNER/REPO")
    base = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    token = os.environ.get("GITHUB_TOKEN")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if not token:
        screen.note("without GITHUB_TOKEN, GitHub answers few requests an hour", style="yellow")

    async def run(sending: Sending, place: Json) -> None:
        async with _forge(base, headers) as get:
            await sending.all(github_items(get, repository, limit, place))

    cursor = Cursor(state_folder(os.environ), "github", base, repository, str(limit))
    _run("github", cursor, run, total=limit * 4, restart=restart, as_json=as_json)


@app.command("jira")
def jira(
    jql: Annotated[str, typer.Argument(help="Which tickets.")] = "created >= -3650d order by created desc",
    *,
    limit: Max = 1000,
    restart: Restart = False,
    as_json: AsJson = False,
) -> None:
    """Load tickets and comments. Reads JIRA_URL and JIRA_TOKEN, and JIRA_USER for Jira Cloud."""
    from cairn_gateway.cli.backfill.jira import jira_items

    base, user, token = (os.environ.get(f"JIRA_{name}", "") for name in ("URL", "USER", "TOKEN"))
    if not base.startswith(("http://", "https://")):
        raise UsageError("JIRA_URL is not set", hint="it looks like https://acme.atlassian.net")
    headers = {}
    if token:
        basic = b64encode(f"{user}:{token}".encode()).decode()
        headers["authorization"] = f"Basic {basic}" if user else f"Bearer {token}"

    async def run(sending: Sending, place: Json) -> None:
        async with _forge(base, headers) as get:
            await sending.all(jira_items(get, jql, limit, place))

    cursor = Cursor(state_folder(os.environ), "jira", base, jql, str(limit))
    _run("jira", cursor, run, total=limit, restart=restart, as_json=as_json)


@app.command("git")
def git(
    path: Annotated[Path, typer.Argument(help="A clone.", exists=True, file_okay=False)] = Path(),
    *,
    url: Annotated[
        str | None, typer.Option("--as", metavar="URL", help="Of which repository; otherwise its remote `origin`.")
    ] = None,
    limit: Max = 10_000,
    restart: Restart = False,
    as_json: AsJson = False,
) -> None:
    """Load the commits of a clone, with their paths and without asking any provider."""
    from cairn_gateway.cli.backfill.git import git_items, origin_of, remote_url

    origin = origin_of(url or remote_url(path), path)

    async def run(sending: Sending, place: Json) -> None:
        await sending.all(_each(git_items(path, origin, limit, place)))

    cursor = Cursor(state_folder(os.environ), "git", str(path.resolve()), origin.full_name, str(limit))
    _run(origin.source, cursor, run, total=limit, restart=restart, as_json=as_json)


class Sending:
    """Sends items in batches, and remembers the place after each."""

    def __init__(self, cairn: Cairn, source: str, cursor: Cursor, advance: screen.Advance) -> None:
        self._cairn = cairn
        self._source = source
        self._cursor = cursor
        self._advance = advance
        self._waiting: list[Item] = []
        self._bytes = 0
        self._failed = False
        self.sent = 0
        self.events = 0
        self.rejected: list[str] = []

    async def all(self, items: AsyncIterator[Item]) -> None:
        """Send everything; where reading ends early, what was read is sent first, so that no work is lost."""
        import orjson

        try:
            async for item in items:
                self._waiting.append(item)
                self._bytes += len(orjson.dumps(item.payload))
                if len(self._waiting) >= BATCH or self._bytes >= BATCH_BYTES:
                    self._send()
        except BaseException:
            if not self._failed:
                self._send()
            raise
        self._send()

    def _send(self) -> None:
        if not self._waiting:
            return
        self._failed = True
        body = {"items": [{"event": item.event, "payload": item.payload} for item in self._waiting]}
        answer = as_object(
            self._cairn.request("POST", f"/backfill/{self._source}", body=body, timeout=60.0, patience=PATIENCE)
        )
        self._cursor.save(self._waiting[-1].cursor)
        self.sent += len(self._waiting)
        self.events += len(answer["event_ids"])
        self.rejected += [one["detail"] for one in answer["rejected"]]
        self._advance(len(self._waiting))
        self._waiting, self._bytes, self._failed = [], 0, False


def _run(
    source: str,
    cursor: Cursor,
    run: Callable[[Sending, Json], Coroutine[Any, Any, None]],
    *,
    total: int,
    restart: bool,
    as_json: bool,
) -> None:
    place = {} if restart else cursor.load()
    if place:
        screen.note("going on where the last run was interrupted; --restart begins anew")
    with connect() as cairn, screen.progress("backfill", total) as advance:
        sending = Sending(cairn, source, cursor, advance)
        try:
            asyncio.run(run(sending, place))
        except KeyboardInterrupt:
            raise Negative(f"interrupted after {sending.sent} items; run it again to go on") from None
    cursor.clear()
    if as_json:
        screen.data({"items": sending.sent, "events": sending.events, "rejected": sending.rejected})
    else:
        screen.say(f"{sending.sent} items, {sending.events} events")
        for detail in sending.rejected[:20]:
            screen.note(f"rejected: {detail}", style="yellow")
    if sending.rejected:
        raise Negative(f"{len(sending.rejected)} items were rejected")


@asynccontextmanager
async def _forge(base: str, headers: dict[str, str]) -> AsyncIterator[Callable[..., Any]]:
    """`get(path, params)` at `base`, which waits where the provider says so."""
    import httpx

    from cairn_shared.errors import Forbidden, NotFound, TransientError
    from cairn_shared.repositories.forge import Forge
    from cairn_shared.retry import Backoff

    async with httpx.AsyncClient(timeout=30.0, follow_redirects=False) as client:
        forge: Forge = Forge(client, base, {"user-agent": "cairn", **headers})
        backoff = Backoff(base=1.0, limit=30.0)

        async def get(path: str, params: Json) -> Any:
            for attempt in range(1, 8):
                try:
                    return await forge.json(path, params=params)
                except NotFound:
                    raise
                except Forbidden as exc:
                    raise NotAllowed(exc.detail) from exc
                except TransientError as exc:
                    wait = exc.retry_after if exc.retry_after is not None else backoff.delay(attempt)
                    if attempt == 7 or wait > LONGEST_WAIT:
                        raise Unreachable(exc.detail, hint="run it again to go on") from exc
                    if wait > 20:
                        screen.note(f"{exc.detail}: going on in {wait:.0f} s", style="yellow")
                    await asyncio.sleep(wait)
            raise AssertionError("unreachable")

        try:
            yield get
        except NotFound as exc:
            raise Rejected(exc.detail) from exc


async def _each(items: Iterator[Item]) -> AsyncIterator[Item]:
    for item in items:
        yield item
