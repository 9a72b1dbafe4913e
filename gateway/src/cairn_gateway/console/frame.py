"""What every page of the console has: navigation, theme, keys, and the client of who is logged in."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, ParamSpec
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from cairn_gateway.console.api import Api, Refused
from cairn_gateway.console.login import LOGIN, PATH
from cairn_gateway.console.markup import html, tag
from cairn_gateway.console.session import COOKIE, Sessions

P = ParamSpec("P")
Page = Callable[Concatenate[Api, P], Awaitable[None]]

PAGES = (
    ("Ask", "/"),
    ("Search", "/search"),
    ("Runbooks", "/runbooks"),
    ("Timeline", "/timeline"),
    ("Dead letters", "/dlq"),
    ("Questions", "/questions"),
    ("Status", "/status"),
)

_KEYS = """
document.documentElement.lang = 'en';
document.addEventListener('keydown', event => {
  const typing = /^(input|textarea|select)$/i.test(event.target.tagName) || event.target.isContentEditable;
  if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey) {
    const field = document.querySelector('.nicegui-content input, .nicegui-content textarea');
    if (field) { event.preventDefault(); field.focus(); field.select && field.select(); }
  }
});
"""


class Console:
    """Makes pages of coroutine functions that are given an `Api` and their parameters."""

    def __init__(self, app: FastAPI, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions

    def page(self, path: str, title: str) -> Callable[[Page[P]], Page[P]]:
        """The page at `path` below the console; without a session it leads to the login."""

        def decorate(content: Page[P]) -> Page[P]:
            async def shown(request: Request, *args: P.args, **kwargs: P.kwargs) -> Response | None:
                key = self._sessions.open(request.cookies.get(COOKIE))
                if key is None:
                    where = quote(f"{PATH}{request.url.path.removeprefix(PATH)}?{request.url.query}".rstrip("?"))
                    return RedirectResponse(f"{PATH}{LOGIN}?to={where}", 303)
                _frame(path)
                with failures():
                    await content(Api(self._app, key), *args, **kwargs)
                return None

            # FastAPI reads the parameters of a page here; the client is not one of them.
            shown.__signature__ = _with_request(content)  # type: ignore[attr-defined]
            ui.page(path, title=f"{title} · Cairn", response_timeout=30)(shown)
            return content

        return decorate


def _with_request(content: Callable[..., Any]) -> Any:
    signature = inspect.signature(content, eval_str=True)
    request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)
    rest = list(signature.parameters.values())[1:]
    return signature.replace(parameters=[request, *rest], return_annotation=inspect.Signature.empty)


@cache
def _css() -> str:
    return (Path(__file__).parent / "console.css").read_text()


def _frame(path: str) -> None:
    ui.add_css(_css())
    ui.add_head_html(f"<script>{_KEYS}</script>")
    dark = ui.dark_mode(value=None)
    ui.colors(primary="#1f5fbf")
    with ui.header().classes("q-py-xs"), ui.element("div").classes("bar"):
        html('<a class="brand" href="/console/">Cairn</a>')
        links = "".join(
            f'<a href="{PATH}{where}"{" aria-current=page" if where == path else ""}>{name}</a>'
            for name, where in PAGES
        )
        html(f'<nav aria-label="Pages">{links}</nav>').classes("pages")

        async def switch() -> None:
            now = await in_browser("document.body.classList.contains('body--dark')")
            dark.value = not now
            ui.run_javascript(f"localStorage.setItem('cairn-dark', '{'no' if now else 'yes'}')")

        async def remembered() -> None:
            if chosen := await in_browser("localStorage.getItem('cairn-dark')"):
                dark.value = chosen == "yes"

        ui.timer(0.05, remembered, once=True)
        ui.button(icon="contrast", on_click=switch).props('flat round dense aria-label="Dark or light"')
        html('<form method="post" action="/console/logout"><button>Log out</button></form>')


@contextmanager
def failures() -> Iterator[None]:
    """Show what was refused, or could not be done, in place of what would have been."""
    try:
        yield
    except Refused as exc:
        trouble(exc)


def trouble(exc: Refused) -> None:
    """A failure with what to do about it."""
    with ui.element("div").classes("card").props("role=alert"):
        html(tag(exc.status, "bad"), f"<b>{_why(exc.status)}</b>")
        ui.label(str(exc)).classes("soft")
        if exc.status == 401:
            ui.link("Log in again", f"{PATH}{LOGIN}")


def _why(status: int) -> str:
    return {
        401: "The key is not valid any more.",
        403: "Your role may not do this.",
        404: "It is not there.",
        409: "Somebody else was faster.",
        412: "Somebody else has changed it meanwhile.",
        429: "Too many requests.",
        503: "A part of Cairn is away: see Status.",
    }.get(status, "It was refused.")


def empty(text: str) -> None:
    """Nothing to show, and what to do."""
    ui.label(text).classes("empty")


async def in_browser(script: str) -> Any | None:
    """What a script says; None from a browser that has gone."""
    try:
        return await ui.run_javascript(script, timeout=5.0)
    except TimeoutError:
        return None


async def attempt(work: Awaitable[Any]) -> Any | None:
    """The result of `work`; None where it was refused, which is told in passing."""
    try:
        return await work
    except Refused as exc:
        ui.notify(f"{_why(exc.status)} {exc}", type="negative", timeout=8000)
        return None
