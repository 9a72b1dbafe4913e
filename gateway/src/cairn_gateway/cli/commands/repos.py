"""`cairn repos` and `cairn sync`: runbooks that are kept in step with git repositories."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from cairn_gateway.cli import indexing, screen
from cairn_gateway.cli.client import Cairn, Json, as_object, connect
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.indexing import WAIT_SECONDS, WaitLimit
from cairn_gateway.cli.options import AsJson, segment

app = typer.Typer(help="Declare git repositories whose Markdown files are runbooks.", no_args_is_help=True)


class Provider(StrEnum):
    """How a repository is read."""

    AUTO = "auto"
    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    GIT = "git"


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="repos")
    root.command("sync")(sync)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Lower case letters, digits and `-`; its runbooks' ids begin with it.")],
    url: Annotated[str, typer.Argument(help="The address to clone from, without credentials.")],
    *,
    branch: Annotated[str, typer.Option(help="Which branch is read.")] = "main",
    include: Annotated[
        list[str] | None,
        typer.Option(help="Files to read, a glob; may be repeated. Otherwise every Markdown file.", show_default=False),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Files to leave out, a glob; may be repeated.", show_default=False)
    ] = None,
    provider: Annotated[Provider, typer.Option(help="`auto` follows from the host, `git` clones.")] = Provider.AUTO,
    as_json: AsJson = False,
) -> None:
    """Declare a repository, or change its declaration, and sync it. Prints the webhook to enter at the provider."""
    body: Json = {"name": name, "url": url, "branch": branch, "provider": provider}
    body |= {member: globs for member, globs in (("include", include), ("exclude", exclude)) if globs}
    with connect() as cairn:
        response = cairn.request("POST", "/repos", body=body)
        declared = as_object(response)
        if as_json:
            screen.raw(response.content)
        else:
            _show_webhook(cairn, declared)


@app.command("ls")
def list_repos(as_json: AsJson = False) -> None:
    """List the repositories and how their last sync went. Ends with 1 when there is none."""
    with connect() as cairn:
        response = cairn.request("GET", "/repos")
    repos = as_object(response)["repos"]
    if as_json:
        screen.raw(response.content)
    elif repos:
        rows = [
            (
                repo["name"],
                repo["url"],
                repo["branch"],
                repo["state"]["files"],
                len(repo["state"]["skipped"]),
                repo["state"]["synced_at"] or "never",
                repo["state"]["error"],
            )
            for repo in repos
        ]
        columns = ("Name", "Address", "Branch", "Files", "Skipped", "Synced", "Error")
        screen.table(columns, rows, right=("Files", "Skipped"))
    if not repos:
        raise Negative("no repository")


@app.command("show")
def show(name: str, as_json: AsJson = False) -> None:
    """Show a repository, its webhook, the files that are no runbooks, and warnings about those that are."""
    with connect() as cairn:
        response = cairn.request("GET", f"/repos/{segment(name)}")
        repo = as_object(response)
        if as_json:
            screen.raw(response.content)
            return
        members = ("name", "url", "branch", "provider", "include", "exclude", "origin")
        state = ("commit", "files", "synced_at", "error", "retry_at")
        screen.facts({member: repo[member] for member in members} | {member: repo["state"][member] for member in state})
        _show_webhook(cairn, repo)
    _show_files(repo)


@app.command("rm")
def remove(
    name: str,
    keep: Annotated[bool, typer.Option("--keep", help="Keep its runbooks, no longer synced.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a repository and its runbooks."""
    with connect() as cairn:
        response = cairn.request("DELETE", f"/repos/{segment(name)}", params={"keep": str(keep).lower()})
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(f"{name} removed" + (", its runbooks stay" if keep else " with its runbooks"))


def sync(
    names: Annotated[list[str] | None, typer.Argument(help="Which; otherwise all of them.", show_default=False)] = None,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the changes are searchable.")] = False,
    wait_limit: WaitLimit = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Make the runbooks be what the repositories hold now. With --wait it ends with 1 when that fails."""
    with connect() as cairn:
        wanted = names or [repo["name"] for repo in cairn.get("/repos")["repos"]]
        if not wanted:
            raise Negative("no repository", hint="`cairn repos add NAME URL` declares one")
        asked = [as_object(cairn.request("POST", f"/repos/{segment(name)}/sync")) for name in wanted]
        repos = _until_synced(cairn, asked, wait_limit) if wait else []
    if as_json:
        screen.data({"asked": asked} | ({"repos": repos} if wait else {}))
    else:
        for one in asked if not wait else []:
            screen.say(f"{one['name']} is being synced" + (f", event {one['event_id']}" if one["event_id"] else ""))
        for repo in repos:
            state = repo["state"]
            screen.say(f"{repo['name']}: {state['error'] or _outcome(state)}", style=screen.mood(not state["error"]))
            _show_files(repo)
    if failed := [repo["name"] for repo in repos if repo["state"]["error"]]:
        raise Negative(f"not synced: {', '.join(failed)}")


def _until_synced(cairn: Cairn, asked: list[Json], limit: float) -> list[Json]:
    """The repositories once their syncs have ended and what those changed is searchable."""
    indexing.require_complete(indexing.wait(cairn, [one["event_id"] for one in asked if one["event_id"]], limit))
    repos = [cairn.get(f"/repos/{segment(one['name'])}") for one in asked]
    changes = [event_id for repo in repos for event_id in repo["state"]["event_ids"]]
    indexing.require_complete(indexing.wait(cairn, changes, limit))
    return repos


def _outcome(state: Json) -> str:
    commit = f" at {state['commit'][:10]}" if state["commit"] else ""
    return f"{state['files']} files{commit}, {state['written']} written, {state['deleted']} deleted"


def _show_webhook(cairn: Cairn, repo: Json) -> None:
    webhook = repo["webhook"]
    if webhook is None:
        screen.say("no webhook: changes are found by the hourly sync and by `cairn sync`")
        return
    secret = cairn.target.stored.get(webhook["setting"])
    screen.facts(
        {
            "webhook": cairn.target.url + webhook["path"],
            "events": webhook["events"],
            "content type": webhook["content_type"],
            "secret": secret or f"what the gateway has as {webhook['setting']}",
        }
    )
    if cairn.target.local:
        screen.note("the provider needs an address under which it reaches this machine", style="yellow")


def _show_files(repo: Json) -> None:
    """What the authors of the files should know."""
    rows = [(file["path"], file["reason"]) for file in repo["state"]["skipped"]]
    if rows:
        screen.table(("Skipped", "Reason"), rows)
    warned = [(file["path"], warning) for file in repo["state"].get("warned", []) for warning in file["warnings"]]
    if warned:
        screen.table(("Taken, but", "Warning"), warned)
