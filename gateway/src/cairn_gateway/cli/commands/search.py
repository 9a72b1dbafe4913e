"""`cairn search`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.answer import place
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.exits import Negative, UsageError
from cairn_gateway.cli.markdown import styled
from cairn_gateway.cli.options import AsJson, K

PREVIEW_CHARACTERS = 160


class Kind(StrEnum):
    """What to search in; `event` is everything that is not a runbook."""

    RUNBOOK = "runbook"
    EVENT = "event"
    COMMIT = "commit"
    PULL_REQUEST = "pull_request"
    ISSUE = "issue"
    TICKET = "ticket"
    COMMENT = "comment"
    DEPLOYMENT = "deployment"
    ALERT = "alert"
    LOG = "log"


class Mode(StrEnum):
    """How to find candidates."""

    HYBRID = "hybrid"
    SEMANTIC = "semantic"
    KEYWORD = "keyword"


class Fusion(StrEnum):
    """How to combine scores."""

    LEARNED = "learned"
    TM2C2 = "tm2c2"
    RRF = "rrf"
    SEED = "seed"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search")(search)


def search(
    query: Annotated[list[str], typer.Argument(help="What to look for; quotes are not needed.", show_default=False)],
    *,
    kind: Annotated[Kind | None, typer.Option(help="Only this kind.", show_default=False)] = None,
    k: K = None,
    source: Annotated[str | None, typer.Option(help="Only from this source.", show_default=False)] = None,
    service: Annotated[str | None, typer.Option(help="Only of this service.", show_default=False)] = None,
    since: Annotated[str | None, typer.Option(help="ISO 8601, with its zone.", show_default=False)] = None,
    until: Annotated[str | None, typer.Option(help="ISO 8601, with its zone.", show_default=False)] = None,
    mode: Annotated[Mode | None, typer.Option(help="How candidates are found.", show_default=False)] = None,
    fusion: Annotated[Fusion | None, typer.Option(help="How scores are combined.", show_default=False)] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the features that ranked each hit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find steps of runbooks, and events. Ends with 1 when there is no hit."""
    text = " ".join(query)
    if not text.strip():
        raise UsageError("there is nothing to search for")
    filters = {"kind": kind, "source": source, "service": service, "since": since, "until": until}
    body: dict[str, Any] = {"query": text, "explain": explain}
    body |= {name: value for name, value in (("k", k), ("mode", mode), ("fusion", fusion)) if value is not None}
    body["filters"] = {name: value for name, value in filters.items() if value is not None}
    with connect() as cairn:
        response = cairn.request("POST", "/search", body=body)
    found = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        _show(found, explain=explain)
    if not found.get("results"):
        raise Negative("no hit")


def _show(found: dict[str, Any], *, explain: bool) -> None:
    for missing in found.get("degraded", []):
        screen.note(f"searched without {missing}", style="yellow")
    hits = found.get("results", [])
    if screen.interactive():
        for hit in hits:
            _card(hit)
    else:
        screen.table(("Score", "Kind", "Id", "Step", "Title", "Source", "Text"), [_row(hit) for hit in hits])
    if explain:
        for hit in hits:
            features = " ".join(f"{name}={_short(value)}" for name, value in hit["features"].items())
            screen.note(f"{hit['runbook_id']} {hit['step']}: {features}")


def _row(hit: dict[str, Any]) -> tuple[Any, ...]:
    step = hit["step"] if hit["kind"] == "runbook" else ""
    text = preview(hit["text"], PREVIEW_CHARACTERS)
    return (float(hit["score"]), hit["kind"], hit["runbook_id"], step, hit["title"], _place(hit), text)


def _card(hit: dict[str, Any]) -> None:
    """Two lines: what and where, then how it begins."""
    from rich.text import Text

    line = Text.assemble((f"{hit['score']:.3f} ", "green"), (screen.clean(hit["title"]), "bold"))
    line.append(f"  step {hit['step']}" if hit["kind"] == "runbook" else f"  {hit['kind']}", "cyan")
    line.append(f"  {screen.clean(_place(hit) or hit['runbook_id'])}", "dim")
    screen.say(line)
    screen.say(f"      {styled(preview(hit['text'], screen.width() - 6))}")


def preview(text: str, characters: int) -> str:
    """The beginning of a step on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= characters else flat[: characters - 1] + "…"


def _place(hit: dict[str, Any]) -> str:
    return place(hit.get("path"), _lines(hit), hit.get("url"))


def _lines(hit: dict[str, Any]) -> list[int] | None:
    first = hit.get("line_start")
    return None if first is None else [first, hit.get("line_end") or first]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)
