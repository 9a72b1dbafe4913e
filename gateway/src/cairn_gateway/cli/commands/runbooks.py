"""`cairn runbooks`: list, show, put, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cairn_gateway.cli import indexing, screen
from cairn_gateway.cli.answer import place
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.exits import Negative, UsageError
from cairn_gateway.cli.indexing import WAIT_SECONDS, Wait, WaitLimit
from cairn_gateway.cli.markdown import styled
from cairn_gateway.cli.options import AsJson, read_text, segment

PAGE = 500

app = typer.Typer(help="List, show, put and remove runbooks.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the group."""
    root.add_typer(app, name="runbooks")


@app.command("ls")
def list_runbooks(
    service: Annotated[str | None, typer.Option(help="Only of this service.", show_default=False)] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.", show_default=False)] = None,
    containing: Annotated[
        str | None, typer.Option("--q", help="Only where the title or id has this.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the runbooks. Ends with 1 when there is none."""
    with connect() as cairn:
        found = list(
            cairn.pages(
                "/runbooks", "runbooks", params={"service": service, "tag": tag, "q": containing, "limit": PAGE}
            )
        )
    if as_json:
        screen.data({"runbooks": found})
    else:
        rows = [
            (item["id"], item["title"], item.get("service"), item.get("severity"), item.get("steps"), item["revision"])
            for item in found
        ]
        if rows:
            screen.table(("Id", "Title", "Service", "Severity", "Steps", "Revision"), rows, right=("Steps", "Revision"))
    if not found:
        raise Negative("no runbook")


@app.command("show")
def show(
    runbook_id: Annotated[str, typer.Argument(metavar="ID")],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print its Markdown source.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a runbook with its numbered steps."""
    accept = "text/markdown" if markdown else "application/json"
    with connect() as cairn:
        response = cairn.request("GET", f"/runbooks/{segment(runbook_id)}", headers={"accept": accept})
    if markdown or as_json:
        screen.raw(response.content)
        return
    _show(as_object(response))


@app.command("put")
def put(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Markdown, or JSON when it ends in .json.")],
    *,
    runbook_id: Annotated[
        str | None, typer.Option("--id", help="Its id; otherwise the file's name.", show_default=False)
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="Where the file lies in its repository, for citations.", show_default=False)
    ] = None,
    if_revision: Annotated[
        int | None,
        typer.Option(min=0, help="Only if it still has this revision; 0: only if it is new.", show_default=False),
    ] = None,
    wait: Wait = False,
    wait_limit: WaitLimit = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Create or replace one runbook. Ends with 3 when somebody else changed it meanwhile."""
    if file == "-" and runbook_id is None:
        raise UsageError("a runbook from stdin needs --id")
    text = read_text(file, "FILE")
    kind = "application/json" if file.endswith(".json") else "text/markdown; charset=utf-8"
    headers = {"content-type": kind}
    if if_revision is not None:
        headers |= {"if-match": f'"{if_revision}"'} if if_revision else {"if-none-match": "*"}
    name = runbook_id or Path(file).stem
    with connect() as cairn:
        response = cairn.request(
            "PUT",
            f"/runbooks/{segment(name)}",
            content=text.encode(),
            headers=headers,
            params={"path": path} if path else None,
        )
        stored = as_object(response)
        waited = indexing.wait(cairn, [stored["event_id"]], wait_limit) if wait else None
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(f"{stored['id']} revision {stored['revision']} {stored['status']}, {stored['steps']} steps")
        for warning in stored.get("warnings", []):
            screen.note(warning, style="yellow")
        indexing.show(waited)
    indexing.require_complete(waited)


@app.command("rm")
def remove(
    runbook_ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Return when search has forgotten them.")] = False,
    wait_limit: WaitLimit = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Remove runbooks from Cairn and from search. Ends with 1 when one did not exist."""
    removed: list[dict[str, Any]] = []
    missing: list[str] = []
    with connect() as cairn:
        for runbook_id in runbook_ids:
            try:
                removed.append(as_object(cairn.request("DELETE", f"/runbooks/{segment(runbook_id)}")))
            except Negative as exc:
                missing.append(exc.message)
        waited = indexing.wait(cairn, [item["event_id"] for item in removed], wait_limit) if wait else None
    if as_json:
        screen.data({"removed": removed, "missing": missing})
    else:
        for item in removed:
            screen.say(f"{item['id']} removed at revision {item['revision']}")
    if missing:
        raise Negative("; ".join(missing))
    indexing.require_complete(waited)


def _show(runbook: dict[str, Any]) -> None:
    screen.say(runbook["title"], style="bold")
    facts = {
        "id": runbook["id"],
        "service": runbook.get("service"),
        "severity": runbook.get("severity"),
        "owner": runbook.get("owner"),
        "tags": runbook.get("tags"),
        "alerts": runbook.get("alerts"),
        "source": runbook.get("source"),
        "path": runbook.get("path"),
        "commit": runbook.get("commit"),
        "revision": runbook.get("revision"),
        "updated": runbook.get("updated_at"),
    }
    screen.facts(facts)
    for step in runbook.get("steps", []):
        heading = f"Step {step.get('label') or step['number']}"
        if step.get("section"):
            heading += f" · {step['section']}"
        where = place(runbook.get("path"), [step["line_start"], step["line_end"]]) if "line_start" in step else ""
        screen.say()
        screen.say(f"{heading}  {where}".rstrip(), style="bold cyan")
        screen.say(styled(step["body"]) if screen.interactive() else step["body"])
