"""Ask: the answer as it comes, its steps with the places they stand at, and what to do about it."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

from nicegui import ui

from cairn_gateway.console import parts
from cairn_gateway.console.api import Api, Json, Refused
from cairn_gateway.console.frame import Console, attempt, in_browser, trouble
from cairn_gateway.console.markup import heading, html, soft, tag
from cairn_gateway.console.rendering import plain

HISTORY = 20
_REMEMBER = """
const kept = JSON.parse(localStorage.getItem('cairn-asked') || '[]').filter(one => one !== %s);
localStorage.setItem('cairn-asked', JSON.stringify([%s, ...kept].slice(0, %d)));
"""


def add(console: Console) -> None:
    """The page."""

    @console.page("/", "Ask")
    async def ask(api: Api, q: str = "") -> None:
        await _Asking(api).build(q)


class _Asking:
    """One visit: the question, the answer, and what came before."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._before: Json | None = None
        self._busy = False
        self._earlier: list[str] = []
        self._back = 0

    async def build(self, question: str) -> None:
        heading("What is wrong?")
        with ui.element("div").classes("line"):
            self._question = (
                ui.input(placeholder="an alert, an error, a symptom ...", value=question)
                .props('outlined dense clearable autofocus aria-label="Question" autocomplete=off')
                .classes("grow")
                .on("keydown.enter", self._asked)
                .on("keydown.up.prevent", lambda: self._step(1))
                .on("keydown.down.prevent", lambda: self._step(-1))
            )
            self._button = ui.button("Ask", on_click=self._asked)
        self._follow = ui.checkbox("a follow-up to the answer below").props("dense")
        self._follow.set_visibility(False)
        self._answer = ui.element("div").classes("stack").props("aria-live=polite")
        self._history = ui.element("div").classes("stack")
        ui.timer(0.1, self._remember, once=True)
        if question:
            await self._asked()

    async def _remember(self) -> None:
        """What this browser asked before: listed on a fresh page, and behind the arrows up and down."""
        asked = await in_browser("JSON.parse(localStorage.getItem('cairn-asked') || '[]')")
        self._earlier = [str(one) for one in asked or ()]
        if not self._question.value:
            self._show_history()

    def _step(self, further: int) -> None:
        self._back = max(0, min(len(self._earlier), self._back + further))
        self._question.value = self._earlier[self._back - 1] if self._back else ""

    def _show_history(self) -> None:
        with self._history:
            if not self._earlier:
                _hint()
                return
            heading("Asked in this browser", 2)
            for one in self._earlier[:HISTORY]:
                ui.button(one, on_click=lambda _, one=one: self._again(one)).props("flat no-caps align=left dense")

    async def _again(self, question: str) -> None:
        self._question.value = question
        await self._asked()

    async def _asked(self, _: Any = None, *, runbooks: list[str] | None = None) -> None:
        question = (self._question.value or "").strip()
        if not question or self._busy:
            return
        body: Json = {"question": question}
        if runbooks:
            body["filters"] = {"runbooks": runbooks}
        if self._before and self._follow.value:
            body["context"] = self._before
        self._busy = True
        self._button.props("loading")
        self._history.clear()
        self._answer.clear()
        try:
            await self._stream(body)
        except Refused as exc:
            with self._answer:
                trouble(exc)
        finally:
            self._busy = False
            self._button.props(remove="loading")
        self._earlier, self._back = [question, *(one for one in self._earlier if one != question)], 0
        quoted = json.dumps(question)
        ui.run_javascript(_REMEMBER % (quoted, quoted, HISTORY))

    async def _stream(self, body: Json) -> None:
        sources: list[Json] = []
        with self._answer:
            waiting = ui.label("Looking for runbooks ...").classes("soft")
            claims = ui.element("div").classes("stack")
        last: Json | None = None
        async for event, data in self._api.ask(body):
            if event == "sources":
                sources = data["sources"]
                waiting.text = "Choosing the steps ..."
            elif event == "claim":
                with claims:
                    self._claims([data], sources, titled=_step_of(data) != last)
                last = _step_of(data)
            elif event == "error":
                raise Refused(data.get("status", 500), data.get("detail", "the question was refused"))
            elif event == "done":
                waiting.delete()
                claims.clear()
                with claims:
                    self._done(body["question"], data)

    def _done(self, question: str, answer: Json) -> None:
        self._state(answer)
        if claims_shown := answer["claims"] or _excerpts(answer["sources"]):
            with ui.element("div").classes("card stack"):
                for _, claims in groupby(claims_shown, key=_step_key):
                    self._claims(list(claims), answer["sources"], titled=True)
        elif answer["mode"] not in {"choose", "refused"}:
            with ui.element("div").classes("card stack"):
                parts.text(answer["answer"])
        for one in answer["choices"]:
            self._choice(one)
        if answer["mode"] == "refused":
            self._refused(answer)
        others = [one for one in answer["sources"] if not one["cited"] and one["kind"] == "runbook"]
        self._others(others)
        self._feedback(question, answer)
        cited: dict[str, list[int]] = {}
        for one in answer["sources"]:
            if one["cited"]:
                cited.setdefault(one["runbook_id"], []).append(one["step"])
        self._before = None
        self._follow.set_visibility(bool(cited))
        if cited:
            self._before = {"question": question, "cited": [{"runbook_id": k, "steps": v} for k, v in cited.items()]}
            self._follow.value = False

    def _state(self, answer: Json) -> None:
        told = [parts.mode_tag(answer["mode"])]
        if answer["missing_alert"]:
            told.append(tag(f"no runbook is for the alert {answer['missing_alert']}: this is the nearest", "warn"))
        if answer["degraded"]:
            told.append(tag((answer["degraded_reason"] or "degraded").replace("_", " "), "warn"))
        if index_time := answer["freshness"].get("index_time"):
            told.append(f'<span class="soft small">index of {parts.ago(index_time)}</span>')
        pending = [one["runbook_id"] for one in answer["freshness"].get("pending", [])]
        told += [tag(f"a newer revision of {name} is on its way", "warn") for name in pending]
        html(*told)

    def _claims(self, claims: list[Json], sources: list[Json], *, titled: bool) -> None:
        """Claims of one step: a chip that opens it, then its words."""
        citation = (claims[0]["citations"] or [None])[0]
        if titled and citation:
            with ui.element("div").classes("line"):
                runbook_id, step = citation["runbook_id"], citation["step"]
                event = claims[0]["origin"] == "event"
                chip = ui.button(citation["marker"].strip("[]")).props("outline dense no-caps size=sm icon=menu_book")
                if event:
                    chip.props("disable")
                else:
                    chip.on_click(lambda: parts.show_step(self._api, runbook_id, step))
                where = parts.place_of(citation.get("path"), citation.get("lines"), None) or plain(citation["byline"])
                html(f'<span class="soft small mono">{where}</span>')
        commands = [one for source in sources if _is(source, citation) for one in source.get("commands") or ()]
        for claim in claims:
            with ui.element("div").classes({"model": "model", "event": "quote"}.get(claim["origin"], "")):
                if claim["origin"] == "model":
                    html(tag("the model's own words"))
                parts.text(claim["text"], [] if claim["origin"] == "model" else commands)

    def _choice(self, one: Json) -> None:
        with ui.element("div").classes("card stack"):
            heading(one["title"], 2)
            if one["about"] and one["about"] != one["first_step"]:
                parts.text(one["about"])
            html(soft("It begins with"))
            parts.text(one["first_step"])
            ui.button("Show this one", on_click=lambda: self._asked(runbooks=[one["runbook_id"]])).props("outline")

    def _refused(self, answer: Json) -> None:
        with ui.element("div").classes("card stack"):
            ui.label(answer["answer"])
            if answer["nearest"]:
                ui.label("The nearest, judged not to answer this:").classes("soft")
            for one in answer["nearest"]:
                with ui.element("div").classes("line"):
                    html(parts.runbook_link(one["runbook_id"], one["title"], one["step"]), soft(one["why"]))
                    ui.button(
                        "Answer from it", on_click=lambda _, one=one: self._asked(runbooks=[one["runbook_id"]])
                    ).props("flat dense no-caps")

    def _others(self, sources: list[Json]) -> None:
        if not sources:
            return
        with ui.expansion(f"{len(sources)} further steps were found").classes("card"):
            for one in sources:
                link = parts.runbook_link(one["runbook_id"], one["title"], one["step"])
                html(link, soft(f"step {one['label'] or one['step']}, {one['score']:.2f}"))

    def _feedback(self, question: str, answer: Json) -> None:
        async def say(verdict: str) -> None:
            body = {"verdict": verdict, "question": question, "request_id": answer.get("request_id")}
            if await attempt(self._api.post("/feedback", {k: v for k, v in body.items() if v})) is not None:
                ui.notify("thank you", timeout=1500)

        with ui.element("div").classes("line"):
            ui.label("Was it right?").classes("soft small")
            for verdict in ("helpful", "wrong", "outdated"):
                ui.button(verdict, on_click=lambda _, verdict=verdict: say(verdict)).props("flat dense no-caps size=sm")


def _hint() -> None:
    """What to do on a first visit."""
    html(
        '<p class="soft">Every sentence of an answer stands in a runbook, and is shown with its place.</p>',
        '<p class="soft"><code>/</code> comes back to this field, Enter asks.</p>',
    )


def _excerpts(sources: list[Json]) -> list[Json]:
    """The steps themselves, where no model has chosen parts of them."""
    return [
        {
            "text": one["content"],
            "origin": "runbook" if one["kind"] == "runbook" else "event",
            "citations": [
                {
                    **{name: one[name] for name in ("runbook_id", "title", "step", "path", "lines")},
                    "marker": f"[{one['title']}, Step {one['label'] or one['step']}]",
                    "byline": " ".join(str(part) for part in (one["author"], one["occurred_at"]) if part),
                }
            ],
        }
        for one in sources
        if one["cited"] and one["content"]
    ]


def _step_of(claim: Json) -> Json | None:
    found: list[Json] = claim["citations"]
    return found[0] if found else None


def _step_key(claim: Json) -> tuple[str, str, int]:
    citation = _step_of(claim)
    return (claim["origin"], citation["runbook_id"], citation["step"]) if citation else (claim["origin"], "", 0)


def _is(source: Json, citation: Json | None) -> bool:
    return citation is not None and (source["runbook_id"], source["step"]) == (citation["runbook_id"], citation["step"])
