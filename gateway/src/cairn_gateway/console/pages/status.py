"""Status: each part of Cairn, what waits, and how current the index is."""

from __future__ import annotations

from nicegui import ui

from cairn_gateway.console import parts
from cairn_gateway.console.api import Api, Json
from cairn_gateway.console.frame import Console, failures
from cairn_gateway.console.markup import heading, html, soft, tag
from cairn_gateway.console.rendering import plain

EVERY = 5.0


def add(console: Console) -> None:
    """The page."""

    @console.page("/status", "Status")
    async def status(api: Api) -> None:
        heading("Status")
        shown = ui.element("div").classes("stack").props("aria-live=polite")

        async def load() -> None:
            with failures():
                found = await api.get("/status")
                shown.clear()
                with shown:
                    _show(found)

        await load()
        ui.timer(EVERY, load)


def _show(found: Json) -> None:
    ok = found["status"] == "ok"
    html(tag(found["status"], "ok" if ok else "bad"), soft(f"Cairn {found['version']}"))
    heading("Parts", 2)
    parts.table(
        ("Part", "State"),
        [(plain(name), tag(said, "ok" if said == "ok" else "bad")) for name, said in found["dependencies"].items()],
    )
    letters = found["dead_letters"]
    if letters:
        heading("Dead letters", 2)
        count = tag(f"{letters['open']} open", "bad" if letters["open"] else "ok")
        html(f'<a href="/console/dlq">{count}</a>', *(tag(f"halted: {one}", "bad") for one in letters["halted"]))
    _queues(found["queues"] or {})
    _partitions(found["partitions"])
    _answers(found["answers"])
    _index(found["index"], found["runbooks"])


def _queues(queues: Json) -> None:
    heading("Waiting", 2)
    parts.table(
        ("Queue", "Waiting", "Not confirmed", "Refused", "Oldest"),
        [
            (plain(name), one["pending"], one["unsettled"], one["refused"], parts.lasting(one["oldest_seconds"]))
            for name, one in queues.items()
        ],
        numbers=("Waiting", "Not confirmed", "Refused"),
    )


def _partitions(found: list[Json] | None) -> None:
    heading("Lag by partition", 2)
    if found is None:
        html(soft("No consumer can be asked: INGEST_CONSUMER_URLS names them."))
        return
    parts.table(
        ("Topic", "Partition", "Records", "Oldest", ""),
        [
            (
                plain(one["topic"]),
                one["partition"],
                one["lag"],
                parts.lasting(one["seconds"]),
                tag("paused", "warn") if one["paused"] else "",
            )
            for one in found
        ],
        numbers=("Partition", "Records"),
    )


def _answers(found: Json | None) -> None:
    heading("Answers", 2)
    if found is None:
        html(soft("The answerer cannot be asked."))
        return
    rate = "" if found["cache_hit_rate"] is None else f"{found['cache_hit_rate']:.0%}"
    html(
        tag(f"circuit {found['circuit']}", "ok" if found["circuit"] == "closed" else "bad"),
        soft(f"cache hits {rate}" if rate else "nothing cached yet"),
        *(tag(f"{number} {mode}") for mode, number in sorted(found["modes"].items())),
    )


def _index(index: Json | None, runbooks: int | None) -> None:
    heading("Index", 2)
    if index is None:
        ui.label("The retriever cannot be asked: its row above says why.").classes("soft")
        return
    documents = ", ".join(f"{number} {kind}" for kind, number in index["documents"].items())
    rows = [
        ("runbooks in MongoDB", runbooks),
        ("documents indexed", documents),
        ("steps", index["steps"]),
        ("chunks", index["chunks"]),
        ("epoch", index["epoch"]),
        ("model", index["fingerprint"]),
    ]
    shown = [(plain(name), plain("" if value is None else value)) for name, value in rows]
    parts.table(("", ""), [*shown, ("last change", parts.ago(index["last_indexed_at"]))])
