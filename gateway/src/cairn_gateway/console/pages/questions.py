"""Questions: what was asked and how it was answered, and which runbooks are missing."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from nicegui import ui

from cairn_gateway.console import parts
from cairn_gateway.console.api import Api, Json
from cairn_gateway.console.frame import Console, empty, failures
from cairn_gateway.console.markup import heading, tag
from cairn_gateway.console.rendering import plain

SHOWN = 10
MODES = ("any", "full", "cached", "excerpts", "keyword", "choose", "refused", "unavailable")


def add(console: Console) -> None:
    """The page."""

    @console.page("/questions", "Questions")
    async def questions(api: Api) -> None:
        heading("Questions")
        with failures():
            await _days(api)
            await _gaps(api)
            await _silent(api)
        with ui.element("div").classes("line"):
            mode = ui.select(list(MODES), value="any", label="answered").props("outlined dense")
            runbook = ui.input(placeholder="runbook id").props('outlined dense clearable aria-label="Runbook"')
            alert = ui.input(placeholder="alert").props('outlined dense clearable aria-label="Alert"')
        shown = ui.element("div").classes("stack")

        async def load(_: Any = None) -> None:
            shown.clear()
            with shown, failures():
                wanted = None if mode.value == "any" else mode.value
                page = await api.get("/questions", mode=wanted, runbook_id=runbook.value, alert=alert.value, limit=100)
                _list(page["questions"])

        mode.on_value_change(load)
        for field in (runbook, alert):
            field.on("keydown.enter", load).on("clear", load)
        await load()


async def _days(api: Api) -> None:
    found = (await api.get("/stats/questions"))["days"]
    days = sorted({one["day"] for one in found})
    counts = {(one["day"], one["mode"]): one["count"] for one in found}
    if len(days) > 1:
        modes = sorted({one["mode"] for one in found})
        parts.chart(
            [
                {"name": m, "type": "bar", "stack": "all", "data": [[d, counts.get((d, m), 0)] for d in days]}
                for m in modes
            ],
            "questions",
        )


async def _silent(api: Api) -> None:
    found = (await api.get("/stats/alerts"))["alerts"][:SHOWN]
    if not found:
        return
    with ui.element("div").classes("card stack"):
        heading("Alerts that fired with no runbook", 2)
        parts.table(
            ("Fired", "Alert", "Service", "Last"),
            [
                (plain(one["fired"]), plain(one["name"]), plain(one["service"] or ""), parts.ago(one["last_fired_at"]))
                for one in found
            ],
            numbers=("Fired",),
        )


async def _gaps(api: Api) -> None:
    found = (await api.get("/questions/gaps", limit=10))["gaps"]
    if not found:
        return
    with ui.element("div").classes("card stack"):
        heading("Refused again and again: runbooks to write", 2)
        parts.table(
            ("Asked", "Question", "Nearest"),
            [
                (
                    plain(one["count"]),
                    _again(one["question"]),
                    ", ".join(plain(near["title"]) for near in one["nearest"][:2]),
                )
                for one in found
            ],
            numbers=("Asked",),
        )


def _list(found: list[Json]) -> None:
    if not found:
        empty("No question is kept. QUESTION_LOG_DAYS says for how long they are.")
        return
    parts.table(
        ("When", "Question", "Answer", "From", "Seconds"),
        [
            (
                parts.ago(one["asked_at"]) + f'<div class="soft small">{plain(one["user_id"] or "")}</div>',
                _again(one["question"]) + (f" {tag(one['alert'], 'warn')}" if one["alert"] else ""),
                parts.mode_tag(one["mode"])
                + (tag((one["degraded_reason"] or "").replace("_", " "), "warn") if one["degraded"] else "")
                + "".join(tag(said["verdict"]) for said in one["feedback"]),
                _from(one["cited"])
                or "".join(f'<div class="soft">{plain(near["title"])}</div>' for near in one["nearest"][:1]),
                f"{one['seconds']:.2f}",
            )
            for one in found
        ],
        numbers=("Seconds",),
    )


def _again(question: str) -> str:
    return f'<a href="/console/?q={quote(question[:1500])}">{plain(question[:160])}</a>'


def _from(cited: list[Json]) -> str:
    return "".join(f"<div>{_page(one)}</div>" for one in {one["runbook_id"]: one for one in cited}.values())


def _page(cited: Json) -> str:
    if cited["kind"] != "runbook":
        return plain(cited["title"])
    return parts.runbook_link(cited["runbook_id"], cited["title"], cited["step"])
