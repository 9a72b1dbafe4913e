"""`cairn users` and `cairn executions`: who there is, and what was done."""

from __future__ import annotations

from typing import Annotated

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.options import AsJson, segment

users = typer.Typer(help="List and add users, give them keys.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(users, name="users")
    root.command("executions")(executions)


@users.command("ls")
def list_users(as_json: AsJson = False) -> None:
    """List the users."""
    with connect() as cairn:
        found = list(cairn.pages("/users", "users"))
    if as_json:
        screen.data({"users": found})
        return
    rows = [(user["id"], user.get("name"), user.get("email"), user.get("team"), user.get("role")) for user in found]
    screen.table(("Id", "Name", "E-mail", "Team", "Role"), rows)


@users.command("add")
def add(
    user_id: Annotated[str, typer.Argument(metavar="ID")],
    *,
    name: Annotated[str, typer.Option(help="The full name.", show_default=False)],
    role: Annotated[str, typer.Option(help="reader, editor, operator or admin.")] = "reader",
    email: Annotated[str | None, typer.Option(help="The address.", show_default=False)] = None,
    team: Annotated[str | None, typer.Option(help="The team.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Add or change a user."""
    members = {"name": name, "role": role, "email": email, "team": team}
    body = {member: value for member, value in members.items() if value is not None}
    with connect() as cairn:
        response = cairn.request("PUT", f"/users/{segment(user_id)}", body=body)
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(f"{user_id} {as_object(response).get('status', 'stored')}")


@users.command("key")
def key(user_id: Annotated[str, typer.Argument(metavar="ID")], as_json: AsJson = False) -> None:
    """Make a new API key for a user. It is printed once and stored only as a hash."""
    with connect() as cairn:
        response = cairn.request("POST", f"/users/{segment(user_id)}/keys", body={})
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(str(as_object(response)["key"]))
    screen.note("keep it now: it cannot be shown again", style="yellow")


def executions(
    runbook: Annotated[str | None, typer.Option(help="Only of this runbook.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List who ran which step, and whether it worked. Ends with 1 when there is none."""
    with connect() as cairn:
        found = list(cairn.pages("/executions", "executions", params={"runbook_id": runbook}))
    if as_json:
        screen.data({"executions": found})
    else:
        rows = [
            (
                item.get("started_at"),
                item["runbook_id"],
                item["step"],
                item.get("outcome"),
                item.get("user_id"),
                item.get("note"),
            )
            for item in found
        ]
        if rows:
            screen.table(("Started", "Runbook", "Step", "Outcome", "User", "Note"), rows, right=("Step",))
    if not found:
        raise Negative("no execution")
