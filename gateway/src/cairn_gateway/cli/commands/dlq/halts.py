"""`cairn dlq halts` and `release`: partitions on which consumption stopped."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import Cairn, Json, as_object, connect
from cairn_gateway.cli.exits import Negative, Unreachable, UsageError
from cairn_gateway.cli.options import AsJson

PATIENCE = 15.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("halts")(list_halts)
    app.command("release")(release)


def list_halts(as_json: AsJson = False) -> None:
    """List partitions that are halted because too much failed for good. Ends with 1 when there is one."""
    with connect() as cairn:
        response = cairn.request("GET", "/dlq/halts")
    found = as_object(response)["halts"]
    if as_json:
        screen.raw(response.content)
    elif found:
        rows = [(one["topic"], one["partition"], one["halted_at"], one["released_by"], one["reason"]) for one in found]
        screen.table(("Topic", "Partition", "Since", "Released by", "Reason"), rows, right=("Partition",))
    else:
        screen.note("no partition is halted")
    if found:
        raise Negative(f"{len(found)} partitions are halted", hint="mend the cause, then `cairn dlq release`")


def release(
    topic: Annotated[str | None, typer.Argument(show_default=False)] = None,
    partition: Annotated[int | None, typer.Argument(min=0, show_default=False)] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every halted partition.")] = False,
) -> None:
    """Let consumption go on, once the cause is mended. The count of failures begins anew."""
    if everything == (topic is not None) or (topic is None) != (partition is None):
        raise UsageError("which partition? give TOPIC and PARTITION, or --all")
    with connect() as cairn:
        wanted = _halted(cairn) if everything else [{"topic": topic, "partition": partition}]
        if not wanted:
            raise Negative("no partition is halted")
        for one in wanted:
            body = {"topic": one["topic"], "partition": one["partition"]}
            cairn.request("POST", "/dlq/halts/release", body=body)
            screen.note(f"{one['topic']}[{one['partition']}] is released")
        _until_gone(cairn, wanted)


def _halted(cairn: Cairn) -> list[Json]:
    found: list[Json] = as_object(cairn.request("GET", "/dlq/halts"))["halts"]
    return found


def _until_gone(cairn: Cairn, wanted: list[Json]) -> None:
    """Its owner looks every few seconds."""
    end = time.monotonic() + PATIENCE
    names = {(one["topic"], one["partition"]) for one in wanted}
    while time.monotonic() < end:
        waiting = {(one["topic"], one["partition"]) for one in _halted(cairn) if one["released_at"]} & names
        if not waiting:
            return
        time.sleep(0.5)
    raise Unreachable("the consumers have not gone on yet", hint="`cairn dlq halts` shows when they have")
