"""Pieces that several pages show: texts, commands, steps, tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from cairn_gateway.console.api import Api, Json
from cairn_gateway.console.frame import attempt
from cairn_gateway.console.markup import heading, html, mono, soft, tag
from cairn_gateway.console.rendering import pieces, plain

_SAFETY = {"read-only": "ok", "changes state": "warn", "destructive": "bad"}
SHOWN_CHARACTERS = 80
_MODES = {"full": "ok", "cached": "ok", "excerpts": "", "keyword": "warn", "choose": "", "refused": "warn"}


def text(markdown: str, commands: Sequence[Json] = ()) -> None:
    """A text with a button to copy each code block, and the labels of its commands."""
    for piece in pieces(markdown):
        if piece.code is None:
            html(piece.html).classes("prose")
        else:
            code(piece.code, [one for one in commands if _holds(piece.code, one)])
    shown = [one for one in commands if not any(piece.code and _holds(piece.code, one) for piece in pieces(markdown))]
    inline = [one for one in shown if _holds(markdown, one)]
    if inline:
        _labels(inline)


def code(source: str, commands: Sequence[Json] = ()) -> None:
    """A code block that can be copied."""
    with ui.element("div").classes("code"):
        html(f'<pre tabindex="0"><code>{plain(source)}</code></pre>')
        ui.button(icon="content_copy", on_click=lambda: copied(source)).props(
            'flat dense round size=sm aria-label="Copy the command"'
        )
        if commands:
            _labels(commands)


def editor(text: str, name: str) -> ui.codemirror:
    """A field for a long text. Not coloured: the colours of no theme can be read in both light and dark."""
    field = ui.codemirror(text, language=None, line_wrapping=True)
    script = f"getHtmlElement({field.id})?.querySelector('.cm-content')?.setAttribute('aria-label', {name!r})"
    ui.timer(0.2, lambda: ui.run_javascript(script), once=True)
    return field


def copied(source: str) -> None:
    """Put it into the clipboard."""
    ui.clipboard.write(source)
    ui.notify("copied", timeout=1200)


def _labels(commands: Iterable[Json]) -> None:
    tags = []
    for one in commands:
        first = one["text"].strip().splitlines()[0]
        tags += [tag(one["safety"], _SAFETY.get(one["safety"], "")), mono(first[:SHOWN_CHARACTERS])]
        tags += [tag(f"fill in {name}", "warn") for name in one.get("unfilled") or ()]
    html(*tags).classes("labels")


def _holds(source: str, command: Json) -> bool:
    flat = " ".join(source.split())
    return any(" ".join(form.split()) in flat for form in (command.get("template"), command["text"]) if form)


def mode_tag(mode: str) -> str:
    """The way in which something was answered."""
    return tag(mode, _MODES.get(mode, "bad"))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Sequence[str] = ()) -> None:
    """Rows of HTML cells."""
    heads = "".join(f'<th scope="col"{_num(name, numbers)}>{plain(name)}</th>' for name in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_num(name, numbers)}>{cell}</td>" for name, cell in zip(columns, row, strict=True))
        + "</tr>"
        for row in rows
    )
    html(f'<table class="table"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>').classes("scroll").props(
        "tabindex=0"
    )


def _num(name: str, numbers: Sequence[str]) -> str:
    return ' class="num"' if name in numbers else ""


def chart(series: list[Json], unit: str) -> None:
    """A plot over time that can be zoomed into."""
    ui.echart(
        {
            "tooltip": {"trigger": "axis"},
            "legend": {"type": "scroll", "top": 0, "textStyle": {"color": "#7d8897"}},
            "grid": {"left": 48, "right": 12, "top": 36, "bottom": 56},
            "xAxis": {"type": "time", "axisLabel": {"color": "#7d8897"}},
            "yAxis": {"type": "value", "name": unit, "axisLabel": {"color": "#7d8897"}},
            "dataZoom": [{"type": "inside"}, {"type": "slider", "height": 18, "bottom": 8}],
            "series": series,
        }
    ).style("height: 15rem; width: 100%").props('role=img aria-label="Plot; the table below has the events"')


def ago(moment: str | None) -> str:
    """How long ago, as HTML with the moment itself."""
    if not moment:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    return f'<time datetime="{plain(moment)}" title="{plain(moment)}">{plain(lasting(max(0.0, seconds)))} ago</time>'


def lasting(seconds: float) -> str:
    """A duration in its largest unit."""
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def runbook_link(runbook_id: str, title: str, step: int | None = None) -> str:
    """A link to a runbook's page."""
    place = f"#step-{step}" if step else ""
    return f'<a href="/console/runbook/{plain(runbook_id)}{place}">{plain(title)}</a>'


def place_of(path: str | None, lines: Sequence[int] | None, url: str | None) -> str:
    """Where a step stands, as a link where a person can read it."""
    where = plain(path or "") + (f":{lines[0]}-{lines[1]}" if path and lines else "")
    if url and url.startswith(("https://", "http://")):
        return f'<a href="{plain(url)}" target="_blank" rel="noopener noreferrer">{where or "source"}</a>'
    return where


async def show_step(api: Api, runbook_id: str, number: int) -> None:
    """A step in its runbook, in front of the page."""
    book = await attempt(api.get(f"/runbooks/{runbook_id}"))
    if book is None:
        return
    step = next((one for one in book["steps"] if one["number"] == number), None)
    with ui.dialog() as dialog, ui.card().classes("stack"):
        heading(book["title"], 2)
        if step is None:
            ui.label(f"Step {number} is not in the present revision.")
        else:
            lines = [step["line_start"], step["line_end"]] if step.get("line_start") else None
            where = f'<span class="soft mono">{place_of(book["path"], lines, book["url"])}</span>'
            html(tag(f"Step {step['label'] or number}"), soft(step["section"]), where)
            text(step["body"])
        html(runbook_link(runbook_id, "Open the whole runbook", number))
        ui.button("Close", on_click=dialog.close).props("flat")
    dialog.open()


def diff(before: str, after: str) -> str:
    """What changed between two texts, line by line, as HTML."""
    import difflib

    shown = []
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2):
        if line.startswith(("---", "+++")):
            continue
        kind = {"+": ' class="add"', "-": ' class="del"'}.get(line[:1], "")
        shown.append(f"<div{kind}>{plain(line) or '&nbsp;'}</div>")
    return f'<div class="diff">{"".join(shown) or "no difference"}</div>'
