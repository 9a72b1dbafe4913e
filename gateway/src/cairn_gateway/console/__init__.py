"""The console: what the API can do, in a browser. Pages know the routes of the gateway and nothing behind them."""

from __future__ import annotations

from fastapi import FastAPI

from cairn_gateway.console.mount import mount
from cairn_gateway.console.session import Sessions
from cairn_gateway.settings import ConsoleSettings


def open_console(app: FastAPI, settings: ConsoleSettings) -> None:
    """Add it to the gateway's app."""
    secret = settings.console_secret.get_secret_value() if settings.console_secret else None
    mount(app, Sessions.of(secret, int(settings.console_session_hours * 3600)))
