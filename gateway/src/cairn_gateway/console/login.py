"""The way in: a form without scripts, so that nothing of the console is served before the key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from cairn_gateway.console.rendering import plain
from cairn_gateway.console.session import COOKIE, Sessions
from cairn_gateway.dependencies import Gateway
from cairn_shared.errors import TransientError, Unauthenticated

PATH = "/console"
LOGIN = "/login"
MAX_KEY = 500

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · Cairn</title><link rel="icon" href="data:,"><style>
body {{ font: 16px/1.5 system-ui, sans-serif; background: #f7f8fa; color: #1c2430; display: grid; place-items: center;
  min-height: 90vh; margin: 0; }}
form {{ background: #fff; border: 1px solid #dce1e8; border-radius: .6rem; padding: 1.5rem; width: min(22rem, 88vw); }}
h1 {{ font-size: 1.3rem; margin: 0 0 1rem; }} label {{ display: block; font-weight: 600; }}
input, button {{ font: inherit; width: 100%; box-sizing: border-box; padding: .55rem .7rem; margin-top: .4rem;
  border: 1px solid #8793a5; border-radius: .4rem; background: #fff; color: inherit; }}
button {{ margin-top: 1rem; background: #1f5fbf; border-color: #1f5fbf; color: #fff; font-weight: 600;
  cursor: pointer; }}
p.error {{ color: #a8201a; margin: .6rem 0 0; }} p {{ color: #566173; font-size: .9rem; margin: 1rem 0 0; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #12161c; color: #e4e9f0; }} form {{ background: #1a2029;
  border-color: #2d3644; }} input {{ background: #12161c; }} p {{ color: #a3afbf; }} p.error {{ color: #ff9a92; }} }}
</style></head><body><main><form method="post" action="/console/login"><h1>Cairn</h1>
<label for="key">API key</label><input id="key" name="key" type="password" autocomplete="current-password" autofocus
 required maxlength="500">{error}<input type="hidden" name="to" value="{to}"><button>Log in</button>
<p>An admin makes keys: <code>cairn users key add YOU</code></p></form></main></body></html>"""


def login_router(sessions: Sessions) -> APIRouter:
    """`/console/login` and `/console/logout`."""
    router = APIRouter(prefix=PATH, include_in_schema=False)

    @router.get(LOGIN)
    async def form(to: str = "") -> HTMLResponse:
        return _form(to)

    @router.post(LOGIN)
    async def enter(
        request: Request,
        state: Gateway,
        key: Annotated[str, Form(max_length=MAX_KEY)] = "",
        to: Annotated[str, Form(max_length=2000)] = "",
    ) -> Response:
        if not _same_site(request):
            return _form(to, "This form was sent from another site.", 403)
        try:
            await state.authenticator.authenticate(key.strip(), request.client.host if request.client else "")
        except Unauthenticated:
            return _form(to, "The key is not valid.", 401)
        except TransientError:
            return _form(to, "Keys cannot be checked now: MongoDB is away. Try again.", 503)
        answer = RedirectResponse(_inside(to), 303)
        answer.set_cookie(
            COOKIE,
            sessions.seal(key.strip()),
            max_age=sessions.seconds,
            path="/",
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    @router.post("/logout")
    async def leave(request: Request) -> Response:
        answer = RedirectResponse(PATH + LOGIN, 303)
        if _same_site(request):
            answer.delete_cookie(COOKIE, path="/")
        return answer

    return router


def _form(to: str, error: str = "", status: int = 200) -> HTMLResponse:
    shown = f'<p class="error" role="alert">{plain(error)}</p>' if error else ""
    return HTMLResponse(_PAGE.format(error=shown, to=plain(_inside(to))), status)


def _inside(to: str) -> str:
    """Where to go on, within the console only."""
    inside = to.startswith(f"{PATH}/") and "\\" not in to and not any(ord(one) < 32 for one in to)
    return to if inside else f"{PATH}/"


def _same_site(request: Request) -> bool:
    return request.headers.get("sec-fetch-site", "same-origin") in {"same-origin", "none"}
