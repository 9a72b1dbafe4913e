"""Timeline: what came in, over time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from nicegui import ui

from cairn_gateway.console import parts
from cairn_gateway.console.api import Api, Json
from cairn_gateway.console.frame import Console, empty, failures
from cairn_gateway.console.markup import heading, soft, tag
from cairn_gateway.console.rendering import plain

HOURS = {6: "6 hours", 24: "a day", 24 * 7: "a week", 24 * 30: "30 days"}
EVENTS = 200


def add(console: Console) -> None:
    """The page."""

    @console.page("/timeline", "Timeline")
    async def timeline(api: Api, hours: int = 24) -> None:
        with ui.element("div").classes("line"):
            heading("Timeline").classes("grow")
            span = ui.select(HOURS, value=hours if hours in HOURS else 24, label="the last").props("outlined dense")
            source = ui.input(placeholder="source or service").props('outlined dense clearable aria-label="Source"')
        shown = ui.element("div").classes("stack")

        async def load(_: Any = None) -> None:
            shown.clear()
            with shown, failures():
                counts = (await api.get("/stats/ingest", hours=span.value))["counts"]
                found = (await api.get("/events", limit=EVENTS))["events"]
                if not counts and not found:
                    empty("Nothing came in. Point a webhook at /webhooks/github, say, or import runbooks.")
                    return
                _plots(counts)
                word = (source.value or "").casefold()
                _events([one for one in reversed(found) if word in f"{one['source']} {one['service']}".casefold()])

        span.on_value_change(load)
        source.on("keydown.enter", load).on("clear", load)
        await load()


def _plots(counts: list[Json]) -> None:
    """Events by hour and source, and how long they took."""
    by_source: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    slowest: dict[str, float] = {}
    for one in counts:
        by_source[one["source"] or "unknown"][one["hour"]] += one["events"]
        if one["seconds"] is not None:
            slowest[one["hour"]] = max(slowest.get(one["hour"], 0.0), round(one["seconds"], 2))
    hours = sorted({one["hour"] for one in counts})
    series = [
        {
            "name": name,
            "type": "bar",
            "stack": "events",
            "barMaxWidth": 28,
            "data": [[hour, of.get(hour, 0)] for hour in hours],
        }
        for name, of in sorted(by_source.items())
    ]
    heading("Events by hour and source", 2)
    parts.chart(series, "events")
    heading("Accepted to searchable, the slowest source's median, seconds", 2)
    parts.chart([{"name": "seconds", "type": "line", "data": [[hour, slowest.get(hour)] for hour in hours]}], "s")


def _events(found: list[Json]) -> None:
    heading("The latest", 2)
    if not found:
        empty("None of that source.")
        return
    styles = {"searchable": "ok", "dead": "bad"}
    parts.table(
        ("When", "State", "Source", "What"),
        [
            (
                parts.ago(one["settled_at"]),
                tag(one["state"], styles.get(one["state"], "")),
                plain(one["source"] or one["topic"]),
                _what(one),
            )
            for one in found
        ],
    )


def _what(event: Json) -> str:
    title = event["title"] or event["subject"] or event["event_id"]
    detail = soft(event["detail"]) if event["detail"] else ""
    if event["kind"] == "runbook" and event["subject"]:
        return parts.runbook_link(event["subject"], title) + detail
    url = event["url"] or ""
    if url.startswith(("https://", "http://")):
        return f'<a href="{plain(url)}" target="_blank" rel="noopener noreferrer">{plain(title)}</a>{detail}'
    return plain(title) + detail
