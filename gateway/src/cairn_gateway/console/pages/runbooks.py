"""Runbooks: the list, one with its steps and revisions, and the editor."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from cairn_gateway.console import parts
from cairn_gateway.console.api import Api, Json, Refused
from cairn_gateway.console.frame import Console, attempt, empty, failures, trouble
from cairn_gateway.console.markup import heading, html, soft, tag
from cairn_gateway.console.rendering import plain

PAGE = 100
NEW = "# What is wrong\n\n## Steps\n\n1. **Look.** What to look at.\n\n   ```bash\n   kubectl get pods\n   ```\n"


def add(console: Console) -> None:
    """The pages."""

    @console.page("/runbooks", "Runbooks")
    async def listed(api: Api, q: str = "") -> None:
        await _list(api, q)

    @console.page("/runbook/{runbook_id}", "Runbook")
    async def shown(api: Api, runbook_id: str, revision: int | None = None) -> None:
        await _one(api, runbook_id, revision)

    @console.page("/edit", "New runbook")
    async def new(api: Api) -> None:
        _Editor(api, None, None, NEW).build()

    @console.page("/edit/{runbook_id}", "Edit")
    async def edit(api: Api, runbook_id: str) -> None:
        book = await api.get(f"/runbooks/{runbook_id}")
        _Editor(api, runbook_id, book["revision"], await api.text(f"/runbooks/{runbook_id}")).build()


async def _list(api: Api, text: str) -> None:
    with ui.element("div").classes("line"):
        heading("Runbooks").classes("grow")
        ui.button("New", icon="add", on_click=lambda: ui.navigate.to("/edit")).props("outline dense no-caps")
    with ui.element("div").classes("line"):
        words = ui.input(value=text, placeholder="in title or id").props('outlined dense aria-label="Filter" clearable')
        words.classes("grow")
        service = ui.input(placeholder="service").props('outlined dense aria-label="Service" clearable')
        tag = ui.input(placeholder="tag").props('outlined dense aria-label="Tag" clearable')
    rows = ui.element("div").classes("stack")

    async def load(_: Any = None, after: str | None = None) -> None:
        if after is None:
            rows.clear()
        with rows, failures():
            page = await api.get(
                "/runbooks", q=words.value, service=service.value, tag=tag.value, after=after, limit=PAGE
            )
            if not page["runbooks"]:
                empty("No runbook. `cairn import FOLDER` loads a folder of Markdown; New writes one here.")
                return
            parts.table(
                ("Runbook", "Service", "Severity", "Steps", "Changed"),
                [
                    (
                        parts.runbook_link(one["id"], one["title"])
                        + f'<div class="soft small mono">{plain(one["id"])}</div>',
                        plain(one["service"] or ""),
                        plain(one["severity"] or ""),
                        plain(one["steps"]),
                        parts.ago(one["updated_at"]),
                    )
                    for one in page["runbooks"]
                ],
                numbers=("Steps",),
            )
            if page["next"]:
                more = ui.button("More").props("flat no-caps")

                async def further() -> None:
                    more.delete()
                    await load(after=page["next"])

                more.on_click(further)

    for field in (words, service, tag):
        field.on("keydown.enter", load).on("clear", load)
    await load()


async def _one(api: Api, runbook_id: str, revision: int | None) -> None:
    place = f"/runbooks/{runbook_id}" + (f"/revisions/{revision}" if revision else "")
    book = await api.get(place)
    with ui.element("div").classes("line"):
        heading(book["title"]).classes("grow")
        if book["markdown"] and revision is None:
            ui.button("Edit", icon="edit", on_click=lambda: ui.navigate.to(f"/edit/{runbook_id}")).props(
                "outline dense no-caps"
            )
    facts = [book["service"], book["severity"], book["owner"], *book["tags"]]
    html(
        *(tag(one) for one in facts if one),
        *(tag(one, "warn") for one in book["alerts"]),
        soft(f"revision {book['revision']} by {book['updated_by']},"),
        f'<span class="soft small">{parts.ago(book["updated_at"])}</span>',
        f'<span class="soft small mono">{parts.place_of(book["path"], None, book["url"])}</span>',
    )
    if revision is not None:
        await _go_back(api, runbook_id, revision)
    section = None
    for step in book["steps"]:
        with ui.element("div").classes("card stack").props(f"id=step-{step['number']}"):
            if step["section"] and step["section"] != section:
                heading(step["section"], 2)
            section = step["section"]
            lines = f"lines {step['line_start']}-{step['line_end']}" if step.get("line_start") else ""
            kind = "Step" if step["kind"] != "section" else "Section"
            html(tag(f"{kind} {step['label'] or step['number']}"), soft(lines))
            parts.text(step["body"])
    if revision is None:
        await _links(api, runbook_id)
    await _executions(api, runbook_id)
    await _revisions(api, runbook_id)


async def _go_back(api: Api, runbook_id: str, revision: int) -> None:
    now = await attempt(api.get(f"/runbooks/{runbook_id}"))
    if now is None:
        return
    old, new = await api.text(f"/runbooks/{runbook_id}/revisions/{revision}"), await api.text(f"/runbooks/{runbook_id}")
    with ui.element("div").classes("card stack"):
        ui.label(f"This is revision {revision}; the present one is {now['revision']}. What has changed since:")
        html(parts.diff(old, new))

        async def back() -> None:
            if await attempt(api.put_markdown(f"/runbooks/{runbook_id}", old, now["revision"])) is not None:
                ui.navigate.to(f"/runbook/{runbook_id}")

        ui.button(f"Put revision {revision} back", on_click=back).props("outline no-caps")


async def _links(api: Api, runbook_id: str) -> None:
    found = (await api.get(f"/runbooks/{runbook_id}/linked-from"))["runbooks"]
    if found:
        html(soft("linked from"), ", ".join(parts.runbook_link(one["id"], one["title"]) for one in found))


async def _executions(api: Api, runbook_id: str) -> None:
    found = (await api.get("/executions", runbook_id=runbook_id, limit=10))["executions"]
    if found:
        heading("Last carried out", 2)
        parts.table(
            ("When", "Step", "Outcome", "By", "Note"),
            [
                (
                    parts.ago(one["started_at"]),
                    plain(one["step"]),
                    plain(one["outcome"]),
                    plain(one["user_id"]),
                    plain(one["note"]),
                )
                for one in found
            ],
            numbers=("Step",),
        )


async def _revisions(api: Api, runbook_id: str) -> None:
    found = (await api.get(f"/runbooks/{runbook_id}/revisions", limit=20))["revisions"]
    heading("Revisions", 2)
    parts.table(
        ("Revision", "Title", "By", "When"),
        [
            (
                plain(one["revision"])
                if one["deleted"]
                else f'<a href="/console/runbook/{plain(runbook_id)}?revision={one["revision"]}">{one["revision"]}</a>',
                plain("(deleted)" if one["deleted"] else one["title"]),
                plain(one["updated_by"]),
                parts.ago(one["updated_at"]),
            )
            for one in found
        ],
        numbers=("Revision",),
    )


class _Editor:
    """A text, what it would be as a runbook, and what is wrong with it. Written over what was read only."""

    def __init__(self, api: Api, runbook_id: str | None, revision: int | None, text: str) -> None:
        self._api = api
        self._id = runbook_id
        self._revision = revision
        self._before = text

    def build(self) -> None:
        heading(f"Edit {self._id}" if self._id else "New runbook")
        self._name = ui.input("id", value=self._id or "").props('outlined dense aria-label="Id"')
        self._name.set_enabled(self._id is None)
        with ui.element("div").classes("line").style("align-items: stretch"):
            self._text = parts.editor(self._before, "Markdown").classes("grow")
            self._text.style("min-height: 24rem; min-width: min(24rem, 100%)")
            self._preview = ui.element("div").classes("stack grow").style("min-width: min(22rem, 100%)")
        with ui.element("div").classes("line"):
            ui.button("Preview", on_click=self._show).props("outline no-caps")
            ui.button("Save", on_click=self._save).props("no-caps")
        self._problem = ui.element("div").classes("stack")
        ui.timer(0.1, self._show, once=True)

    async def _show(self) -> None:
        self._preview.clear()
        with self._preview:
            try:
                shown = await self._api.post("/runbooks/preview", {"markdown": self._text.value or ""})
            except Refused as exc:
                trouble(exc)
                return
            heading(shown["title"], 2)
            for warning in shown["warnings"]:
                html(tag(warning, "warn"))
            for step in shown["steps"]:
                with ui.element("div").classes("card"):
                    html(tag(step["label"] or step["number"]), soft(step["section"]))
                    parts.text(step["body"])

    async def _save(self) -> None:
        self._problem.clear()
        name = self._id or (self._name.value or "").strip()
        text: str = self._text.value or ""
        if not name:
            with self._problem:
                trouble(Refused(422, "give the runbook an id", "id"))
            return
        try:
            written = await self._api.put_markdown(f"/runbooks/{name}", text, self._revision)
        except Refused as exc:
            with self._problem:
                trouble(exc)
                if exc.status == 412 and self._id:
                    await self._conflict()
            return
        ui.notify(f"revision {written['revision']}: {written['status']}; it is searchable in a moment")
        ui.navigate.to(f"/runbook/{name}")

    async def _conflict(self) -> None:
        """What the other has written, and a way to write over it knowingly."""
        now: Json = await self._api.get(f"/runbooks/{self._id}")
        theirs = await self._api.text(f"/runbooks/{self._id}")
        ui.label(f"Revision {now['revision']} by {now['updated_by']}. From theirs to yours:")
        html(parts.diff(theirs, self._text.value or ""))

        async def over() -> None:
            self._revision = now["revision"]
            await self._save()

        ui.button("Write mine over it", on_click=over).props("outline color=negative no-caps")
