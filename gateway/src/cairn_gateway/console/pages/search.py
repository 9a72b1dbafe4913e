"""Search: what was found, why it stands where it does, and what the gate made of it."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from cairn_gateway.console import parts
from cairn_gateway.console.api import Api, Json
from cairn_gateway.console.frame import Console, empty, failures
from cairn_gateway.console.markup import heading, html, soft, tag
from cairn_gateway.console.rendering import plain

MODES = ("hybrid", "semantic", "keyword")
FUSIONS = ("learned", "tm2c2", "rrf", "seed")


def add(console: Console) -> None:
    """The page."""

    @console.page("/search", "Search")
    async def search(api: Api, q: str = "", mode: str = "hybrid", fusion: str = "learned") -> None:
        heading("Search")
        with ui.element("div").classes("line"):
            query = ui.input(value=q, placeholder="words, an error, a commit ...").props(
                'outlined dense autofocus aria-label="Query" autocomplete=off'
            )
            query.classes("grow")
            how = ui.select(list(MODES), value=mode if mode in MODES else MODES[0], label="mode").props(
                "outlined dense"
            )
            by = ui.select(list(FUSIONS), value=fusion if fusion in FUSIONS else FUSIONS[0], label="ranking")
            by.props("outlined dense")
            beside = ui.select(["nothing", *MODES[1:], *FUSIONS[1:]], value="nothing", label="beside")
            beside.props("outlined dense")
        results = ui.element("div").classes("line").style("align-items: flex-start")

        async def run(_: Any = None) -> None:
            results.clear()
            if not (query.value or "").strip():
                with results:
                    empty("Type a query; every hit shows its scores.")
                return
            wanted = {"mode": how.value, "fusion": by.value}
            other = {"mode": beside.value} if beside.value in MODES else {"fusion": beside.value}
            columns = [wanted] if beside.value == "nothing" else [wanted, wanted | other]
            for one in columns:
                with results, ui.element("div").classes("stack grow").style("min-width: min(22rem, 100%)"), failures():
                    found = await api.post("/search", {"query": query.value, "k": 10, "explain": True, **one})
                    _show(found, ", ".join(one.values()))

        query.on("keydown.enter", run)
        for choice in (how, by, beside):
            choice.on_value_change(run)
        await run()


def _show(found: Json, name: str) -> None:
    gate = found["gate"]
    halves = [(half, gate[half]) for half in ("runbooks", "events") if gate[half]]
    verdicts = [tag(f"{half} {said['confidence']:.2f}", "ok" if said["enough"] else "warn") for half, said in halves]
    degraded = [tag(f"without {one}", "warn") for one in found["degraded"]]
    took = soft(f"{found['timings'].get('total_ms', 0):.0f} ms")
    html(f"<b>{plain(name)}</b>", *verdicts, *degraded, took)
    if not found["results"]:
        empty("Nothing was found.")
    for hit in found["results"]:
        _hit(hit)


def _hit(hit: Json) -> None:
    with ui.element("div").classes("card"):
        title = plain(hit["title"])
        if hit["kind"] == "runbook":
            title = parts.runbook_link(hit["runbook_id"], hit["title"], hit["step"])
        lines = [hit["line_start"], hit["line_end"]] if hit["line_start"] else None
        facts = [hit["kind"], hit["section"], hit["author"], f"x {hit['count']}" if hit["count"] > 1 else None]
        told = soft(" · ".join(str(one) for one in facts if one))
        where = f'<span class="soft small mono">{parts.place_of(hit["path"], lines, hit["url"])}</span>'
        html(f"<b>{title}</b>", told, where, parts.ago(hit["occurred_at"]))
        html(_meters(hit))
        with ui.expansion("text").props("dense"):
            parts.text(hit["text"])


def _meters(hit: Json) -> str:
    """Each share as a bar, other numbers as they are; what is zero or absent says nothing."""
    rows = []
    for name, value in [("score", hit["score"]), *hit["features"].items()]:
        if name == "chunk_id" or not value:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            rows.append(f'<div class="meter"><span>{plain(name)}</span><b>{plain(shown)}</b></div>')
            continue
        width = max(0.0, min(1.0, float(value))) * 10
        bar = f'<i style="width: {width:.2f}rem"></i>' if -1 <= value <= 1 else ""
        rows.append(f'<div class="meter"><span>{plain(name)}</span>{bar}<b>{value:.3g}</b></div>')
    return "".join(rows)
