"""Which letters: the options that all commands of `cairn dlq` share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from cairn_gateway.cli.exits import UsageError


class State(StrEnum):
    """Where a letter is."""

    OPEN = "open"
    REPLAYING = "replaying"
    RESOLVED = "resolved"
    DISCARDED = "discarded"


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, show_default=False)


Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Letters, as `cairn dlq ls` shows them.")]
Group = Annotated[str | None, _option("Only of this group (`cairn dlq groups`).", "--group", "-g")]
Topic = Annotated[str | None, _option("Only from this topic.", "--topic")]
Stage = Annotated[str | None, _option("Only those that failed at this stage.", "--stage")]
Kind = Annotated[str | None, _option("Only of this class: permanent, unknown, crash.", "--class")]
Exception_ = Annotated[str | None, _option("Only with this exception.", "--exception")]
Source = Annotated[str | None, _option("Only from this source.", "--source")]
Type = Annotated[str | None, _option("Only of this type of event.", "--type")]
Since = Annotated[str | None, _option("Failed at or after; ISO 8601, with its zone.", "--since")]
Until = Annotated[str | None, _option("Failed before; ISO 8601, with its zone.", "--until")]
All = Annotated[bool, typer.Option("--all", help="Every open letter.")]


def filters(
    *,
    group: str | None = None,
    topic: str | None = None,
    stage: str | None = None,
    kind: str | None = None,
    exception: str | None = None,
    source: str | None = None,
    event_type: str | None = None,
    since: str | None = None,
    until: str | None = None,
    state: str | None = None,
) -> dict[str, str]:
    """The given filters by the API's names."""
    named = {
        "fingerprint": group,
        "topic": topic,
        "stage": stage,
        "kind": kind,
        "exception": exception,
        "source": source,
        "event_type": event_type,
        "since": since,
        "until": until,
        "state": state,
    }
    return {name: value for name, value in named.items() if value is not None}


def selection(ids: list[str] | None, filtered: dict[str, str], *, everything: bool) -> dict[str, Any]:
    """The body of a request that acts on letters.

    Raises:
        UsageError: nothing is chosen, or an id is none.
    """
    if not (ids or filtered or everything):
        raise UsageError("which letters? give ids, a filter such as --group, or --all")
    body: dict[str, Any] = {"all": everything}
    if ids:
        body["ids"] = [checked(one) for one in ids]
    if filtered:
        body["filter"] = filtered
    return body


def checked(letter_id: str) -> str:
    """Raises UsageError: it is no id of a letter."""
    try:
        return str(UUID(letter_id))
    except ValueError as exc:
        raise UsageError(f"{letter_id!r} is no id of a dead letter", hint="`cairn dlq ls` shows them") from exc
