"""`cairn users` and `cairn executions`: who there is, and what was done."""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import Annotated

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import Cairn, Json, as_object, connect
from cairn_gateway.cli.exits import Negative, UsageError
from cairn_gateway.cli.options import AsJson, segment

PAGE = 500

users = typer.Typer(help="List and add users, give and take keys.", no_args_is_help=True)
executions = typer.Typer(help="List or record who carried out which step.")


class Role(StrEnum):
    """What somebody may do; each may also do what those before it may."""

    READER = "reader"
    EDITOR = "editor"
    OPERATOR = "operator"
    ADMIN = "admin"


class Outcome(StrEnum):
    """How a step went."""

    WORKED = "worked"
    FAILED = "failed"
    SKIPPED = "skipped"


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(users, name="users")
    root.add_typer(executions, name="executions")


@users.command("ls")
def list_users(as_json: AsJson = False) -> None:
    """List the users and their keys."""
    with connect() as cairn:
        response = cairn.request("GET", "/users")
    if as_json:
        screen.raw(response.content)
        return
    rows = [
        (user["id"], user["name"], user["role"], user["email"], user["team"], [_key(key) for key in user["keys"]])
        for user in as_object(response)["users"]
    ]
    screen.table(("Id", "Name", "Role", "E-mail", "Team", "Keys"), rows)


@users.command("add")
def add(
    user_id: Annotated[str, typer.Argument(metavar="ID")],
    *,
    name: Annotated[str, typer.Option(help="The full name.", show_default=False)],
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.READER,
    email: Annotated[str | None, typer.Option(help="The address.", show_default=False)] = None,
    team: Annotated[str | None, typer.Option(help="The team.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Add or change a user; the keys stay."""
    members = {"name": name, "role": role, "email": email, "team": team}
    body = {member: value for member, value in members.items() if value is not None}
    with connect() as cairn:
        response = cairn.request("PUT", f"/users/{segment(user_id)}", body=body)
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(f"{user_id} {as_object(response)['status']}")


@users.command("key")
def make_key(
    user_id: Annotated[str, typer.Argument(metavar="ID")],
    label: Annotated[str, typer.Option(help="What it is for.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Make a new API key. It is printed this once and stored only as a hash."""
    with connect() as cairn:
        response = cairn.request("POST", f"/users/{segment(user_id)}/keys", body={"label": label})
    made = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(made["key"])
    screen.note(f"keep it now, it cannot be shown again; its id is {made['key_id']}", style="yellow")


@users.command("revoke")
def revoke(
    user_id: Annotated[str, typer.Argument(metavar="ID")],
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="As `cairn users ls` shows it.")],
) -> None:
    """Shut a key out, within a second."""
    with connect() as cairn:
        cairn.request("DELETE", f"/users/{segment(user_id)}/keys/{segment(key_id)}")
    screen.note(f"{key_id} is revoked")


@users.command("role")
def change_role(
    user_id: Annotated[str, typer.Argument(metavar="ID")],
    role: Annotated[Role, typer.Argument(help="What they may do from now on.")],
) -> None:
    """Change what a user may do; other gateways follow within a second."""
    with connect() as cairn:
        user = _user(cairn, user_id)
        kept = {name: user[name] for name in ("name", "email", "team") if user[name] is not None}
        cairn.request("PUT", f"/users/{segment(user_id)}", body=kept | {"role": role})
    screen.note(f"{user_id} is {role.value}")


@users.command("rotate")
def rotate(
    user_id: Annotated[str, typer.Argument(metavar="ID")],
    key_id: Annotated[
        str | None, typer.Argument(metavar="[KEY_ID]", help="The key to replace; needed where there are several.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a new API key in the place of an old one, which is shut out. The new one is printed this once."""
    with connect() as cairn:
        old = _only_key(_user(cairn, user_id), key_id)
        response = cairn.request("POST", f"/users/{segment(user_id)}/keys", body={"label": old["label"]})
        made = as_object(response)
        if as_json:
            screen.raw(response.content)
        else:
            screen.say(made["key"])
        cairn.request("DELETE", f"/users/{segment(user_id)}/keys/{segment(old['id'])}", patience=10.0)
    screen.note(f"keep it now, it cannot be shown again; its id is {made['key_id']}", style="yellow")
    screen.note(f"{old['id']} is revoked")


@users.command("rm")
def remove(user_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Remove a user with every key; what they did stays in the records."""
    with connect() as cairn:
        cairn.request("DELETE", f"/users/{segment(user_id)}")
    screen.note(f"{user_id} is removed")


def _user(cairn: Cairn, user_id: str) -> Json:
    """Raises Negative: there is no such user."""
    for user in as_object(cairn.request("GET", "/users"))["users"]:
        if user["id"] == user_id:
            found: Json = user
            return found
    raise Negative(f"there is no user {user_id}")


def _only_key(user: Json, key_id: str | None) -> Json:
    """Raises Negative: the user has no such key. UsageError: it is not clear which."""
    keys: list[Json] = [key for key in user["keys"] if key_id in (None, key["id"])]
    if not keys:
        raise Negative(f"user {user['id']} has no key{f' {key_id}' if key_id else ''}")
    if len(keys) > 1:
        raise UsageError("KEY_ID: which one?", hint=", ".join(key["id"] for key in keys))
    return keys[0]


@executions.callback(invoke_without_command=True)
def list_executions(
    context: typer.Context,
    *,
    runbook: Annotated[str | None, typer.Option(help="Only of this runbook.", show_default=False)] = None,
    user: Annotated[str | None, typer.Option(help="Only by this user.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List who carried out which step, newest first; or record it. Ends with 1 when there is none."""
    if context.invoked_subcommand is not None:
        return
    wanted = {"runbook_id": runbook, "user_id": user, "limit": min(limit, PAGE)}
    with connect() as cairn:
        found = list(islice(cairn.pages("/executions", "executions", params=wanted), limit))
    if as_json:
        screen.data({"executions": found})
    elif found:
        rows = [
            (item["started_at"], item["runbook_id"], item["step"], item["outcome"], item["user_id"], item["note"])
            for item in found
        ]
        screen.table(("Started", "Runbook", "Step", "Outcome", "User", "Note"), rows, right=("Step",))
    if not found:
        raise Negative("no execution")


@executions.command("record")
def record(
    runbook_id: Annotated[str, typer.Argument(metavar="RUNBOOK")],
    step: Annotated[int, typer.Argument(min=1)],
    outcome: Annotated[Outcome, typer.Argument()],
    *,
    note: Annotated[str, typer.Option(help="What was seen.", show_default=False)] = "",
    incident: Annotated[str | None, typer.Option(help="During which incident.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Record that you carried out a step, and how it went."""
    body = {"runbook_id": runbook_id, "step": step, "outcome": outcome, "note": note}
    with connect() as cairn:
        response = cairn.request("POST", "/executions", body=body | ({"incident": incident} if incident else {}))
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(f"{as_object(response)['id']} recorded")


def _key(key: dict[str, str]) -> str:
    return f"{key['id']} ({key['label']})" if key["label"] else key["id"]
