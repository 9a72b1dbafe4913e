"""Dead letters: what failed and why, a trial with the code of now, replay, mending, discarding."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from nicegui import background_tasks, ui

from cairn_gateway.console import parts
from cairn_gateway.console.api import Api, Json
from cairn_gateway.console.frame import Console, attempt, empty, failures
from cairn_gateway.console.markup import heading, html, mono, soft, tag
from cairn_gateway.console.rendering import plain

STATES = ("open", "replaying", "resolved", "discarded")
_TAGS = {"open": "bad", "replaying": "warn", "resolved": "ok"}
EVERY = 1.0
SHOWN_CHARACTERS = 200


def add(console: Console) -> None:
    """The pages."""

    @console.page("/dlq", "Dead letters")
    async def letters(api: Api, state: str = "open", group: str = "") -> None:
        await _Letters(api, state if state in STATES else "open", group).build()

    @console.page("/dlq/{letter_id}", "Dead letter")
    async def letter(api: Api, letter_id: str) -> None:
        await _Letter(api, letter_id).build()


class _Letters:
    """The list, by state and group."""

    def __init__(self, api: Api, state: str, group: str) -> None:
        self._api = api
        self._group = group
        self._first = state

    async def build(self) -> None:
        heading("Dead letters")
        with ui.element("div").classes("line"):
            self._state = ui.select(list(STATES), value=self._first, label="state").props("outlined dense")
            self._source = ui.input(placeholder="source").props('outlined dense clearable aria-label="Source"')
            self._topic = ui.input(placeholder="topic").props('outlined dense clearable aria-label="Topic"')
        self._halts = ui.element("div").classes("stack")
        self._shown = ui.element("div").classes("stack")
        self._state.on_value_change(self._load)
        for field in (self._source, self._topic):
            field.on("keydown.enter", self._load).on("clear", self._load)
        await self._load_halts()
        await self._load()

    async def _load_halts(self) -> None:
        self._halts.clear()
        with self._halts, failures():
            for one in (await self._api.get("/dlq/halts"))["halts"]:
                self._halt(one)

    def _halt(self, one: Json) -> None:
        place = {"topic": one["topic"], "partition": one["partition"]}

        async def release() -> None:
            if await attempt(self._api.post("/dlq/halts/release", place)) is not None:
                ui.notify("released; it takes two seconds or so")
                await self._load_halts()

        with ui.element("div").classes("card line").props("role=alert"):
            where = f"<b>{plain(one['topic'])}[{one['partition']}]</b>"
            html(tag("halted", "bad"), where, plain(one["reason"])).classes("grow")
            ui.button("Release", on_click=release).props("outline no-caps dense")

    async def _load(self, _: Any = None) -> None:
        self._shown.clear()
        wanted = {"state": self._state.value, "source": self._source.value, "topic": self._topic.value}
        with self._shown, failures():
            if not self._group:
                for group in (await self._api.get("/dlq/groups", **wanted))["groups"]:
                    self._one_group(group)
            page = await self._api.get("/dlq", **wanted, fingerprint=self._group or None, limit=100)
            if self._group:
                self._actions({"filter": {"fingerprint": self._group, "state": "open"}})
            if not page["letters"]:
                empty(f"No {self._state.value} dead letter.")
                return
            _table(page["letters"])

    def _one_group(self, group: Json) -> None:
        with ui.element("div").classes("card stack"):
            count = f"<b>{group['count']} x {plain(group['exception'])}</b>"
            html(count, tag(group["stage"]), soft(f"the oldest {parts.lasting(group['oldest_seconds'])} ago"))
            html(mono(group["message"]))
            html(f'<a href="/console/dlq?group={plain(group["fingerprint"])}">Show only these</a>')
            if self._state.value == "open":
                self._actions({"filter": {"fingerprint": group["fingerprint"], "state": "open"}})

    def _actions(self, which: Json) -> None:
        act(self._api, which, self._load)


def act(api: Api, which: Json, after: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Buttons that try, replay or discard the letters that `which` names."""
    shown = ui.element("div").classes("stack")

    async def dry_run() -> None:
        found = await attempt(api.post("/dlq/dry-runs", which))
        shown.clear()
        if found is not None:
            with shown:
                _tried(found)

    async def replay() -> None:
        job = await attempt(api.post("/dlq/replays", {**which, "rate": 50}))
        shown.clear()
        if job is not None:
            with shown:
                _Progress(api, job, after)

    async def discard() -> None:
        reason = await asked("Why may they be discarded?")
        if reason and await attempt(api.post("/dlq/discards", {**which, "reason": reason})) is not None:
            await after()

    with ui.element("div").classes("line"):
        ui.button("Dry run", on_click=dry_run).props("outline dense no-caps")
        ui.button("Replay", on_click=replay).props("dense no-caps")
        ui.button("Discard ...", on_click=discard).props("flat dense no-caps color=negative")


async def asked(question: str) -> str | None:
    """A line of text from whoever is there; None when they think better of it."""
    with ui.dialog() as dialog, ui.card().classes("stack"):
        ui.label(question)
        field = ui.input().props(f'outlined dense autofocus aria-label="{question}"')
        field.on("keydown.enter", lambda: dialog.submit(field.value))
        with ui.element("div").classes("line"):
            ui.button("Yes", on_click=lambda: dialog.submit(field.value)).props("no-caps")
            ui.button("No", on_click=lambda: dialog.submit(None)).props("flat no-caps")
    answer = await dialog
    return (answer or "").strip() or None


def _tried(found: Json) -> None:
    ui.label(f"With the code of now, nothing written: {found['ok']} well, {found['failed']} not.").classes("soft")
    for one in found["results"][:10]:
        said = one["verdict"] if one["ok"] else f"{one['stage']}: {one['exception']}"
        html(tag(said, "ok" if one["ok"] else "bad"), mono(one["title"] or one["reason"] or ""))


class _Progress:
    """How far a replay is, with a stop."""

    def __init__(self, api: Api, job: Json, after: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._api = api
        self._id = job["id"]
        self._after = after
        self._label = ui.label().props("aria-live=polite")
        self._bar = ui.linear_progress(0.0, show_value=False).props('aria-label="Replay"')
        self._stop = ui.button("Stop", on_click=self._stopped).props("flat dense no-caps")
        self._tell(job)
        self._timer = ui.timer(EVERY, self._look)

    async def _look(self) -> None:
        job = await attempt(self._api.get(f"/dlq/replays/{self._id}"))
        if job is None or self._tell(job):
            self._timer.deactivate()
            self._stop.delete()
            if job is not None:
                # It replaces this very timer, whose deletion would cancel it.
                background_tasks.create(self._after())

    async def _stopped(self) -> None:
        await attempt(self._api.post(f"/dlq/replays/{self._id}/stop", {}))

    def _tell(self, job: Json) -> bool:
        """Show it; whether it has ended."""
        ended = job["resolved"] + job["failed_again"] + job["discarded"]
        self._label.text = (
            f"{job['state']}: {job['resolved']} of {job['selected']} resolved, {job['failed_again']} failed again, "
            f"{job['waiting']} not sent yet"
        )
        self._bar.value = ended / max(1, job["selected"])
        return bool(job["settled"])


def _table(found: list[Json]) -> None:
    parts.table(("State", "Failed", "What", "Why"), [_row(one) for one in found])


def _row(one: Json) -> tuple[str, ...]:
    failure, name = one["failure"], plain(one["subject"] or one["event_id"] or one["id"])
    return (
        tag(one["state"], _TAGS.get(one["state"], "")) + (tag("superseded", "ok") if one["superseded"] else ""),
        parts.ago(failure["last_failed_at"]),
        f'<a href="/console/dlq/{plain(one["id"])}">{name}</a><br>{soft(one["source"] or one["topic"])}',
        f"{tag(failure['stage'])} {mono(failure['message'][:SHOWN_CHARACTERS])}",
    )


def _shown(value: Json) -> str:
    if value["null"]:
        return "(null)"
    return str(value["text"] if value["text"] is not None else value["hex"])


class _Letter:
    """One letter, whole."""

    def __init__(self, api: Api, letter_id: str) -> None:
        self._api = api
        self._id = letter_id

    async def build(self) -> None:
        self._shown = ui.element("div").classes("stack")
        await self._load()

    async def _load(self) -> None:
        self._shown.clear()
        with self._shown, failures():
            one = await self._api.get(f"/dlq/{self._id}")
            heading(one["subject"] or one["event_id"] or one["id"])
            place = f"{one['topic']}[{one['partition']}] offset {one['offset']}"
            html(
                tag(one["state"], _TAGS.get(one["state"], "")),
                soft(f"{place}, {one['size']} bytes, replayed {one['replay_count']} times", "small mono"),
            )
            failure = one["failure"]
            with ui.element("div").classes("card stack"):
                html(
                    f"<b>{plain(failure['exception'])}</b>",
                    tag(failure["stage"]),
                    f'<span class="soft small">{parts.ago(failure["last_failed_at"])}</span>',
                    soft(f"{failure['attempts']} attempts, Cairn {failure['app_version']}"),
                )
                html(mono(failure["message"]))
                if one["stack"]:
                    with ui.expansion("stack"):
                        parts.code(one["stack"])
            if one["state"] == "open":
                act(self._api, {"ids": [self._id]}, self._load)
                ui.button("Edit and send ...", on_click=lambda: self._edit(one)).props("outline dense no-caps")
            if one["state"] == "discarded":
                ui.button("Open again ...", on_click=self._reopen).props("outline dense no-caps")
            self._details(one)

    def _details(self, one: Json) -> None:
        heading("Value", 2)
        value = one["value"]
        parts.code(_shown(value))
        if value["truncated"]:
            ui.label("Only the beginning is shown.").classes("soft small")
        heading("Headers", 2)
        heads = [(plain(head["name"]), mono(_shown(head))) for head in one["headers"]]
        parts.table(("Name", "Value"), heads)
        heading("History", 2)
        parts.table(
            ("When", "What", "By", ""),
            [
                (parts.ago(c["at"]), plain(c["what"]), plain(c["by"] or "Cairn"), plain(c["detail"]))
                for c in one["history"]
            ],
        )

    async def _reopen(self) -> None:
        reason = await asked("Why is it opened again?")
        if reason and await attempt(self._api.post(f"/dlq/{self._id}/reopen", {"reason": reason})) is not None:
            await self._load()

    async def _edit(self, one: Json) -> None:
        with ui.dialog() as dialog, ui.card().classes("stack"):
            ui.label("A new event in its place, linked to the letter.")
            text = parts.editor(one["value"]["text"] or "", "Value").style("height: 22rem")
            reason = ui.input("reason").props("outlined dense")
            said = ui.element("div").classes("stack")

            async def send(*, dry: bool) -> None:
                body = {"value": text.value, "reason": reason.value or "", "dry_run": dry}
                answer = await attempt(self._api.post(f"/dlq/{self._id}/edit", body))
                said.clear()
                if answer is None:
                    return
                if not dry:
                    dialog.close()
                    await self._load()
                    return
                with said:
                    _tried(answer["dry_run"])

            with ui.element("div").classes("line"):
                ui.button("Dry run", on_click=lambda: send(dry=True)).props("outline no-caps")
                ui.button("Send", on_click=lambda: send(dry=False)).props("no-caps")
                ui.button("Close", on_click=dialog.close).props("flat no-caps")
        dialog.open()
