"""`cairn chat`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cairn_gateway.cli import screen, thread
from cairn_gateway.cli.asking import streamed
from cairn_gateway.cli.client import Cairn, Json, connect
from cairn_gateway.cli.exits import CliError, NotAllowed
from cairn_gateway.cli.options import K
from cairn_gateway.cli.thread import Thread

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

HISTORY = "questions"
NEW = "/new"
HELP = f"Ask; a question may follow the answer before it, a number chooses. {NEW} begins anew, Ctrl-D ends."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("chat")(chat)


def chat(
    *,
    again: Annotated[bool, typer.Option("-c", "--continue", help="Begin with the last answer of `cairn ask`.")] = False,
    k: K = None,
    service: Annotated[str | None, typer.Option(help="Only this service's runbooks.", show_default=False)] = None,
) -> None:
    """Ask one question after the other; each may be about the answer on the screen.

    From a pipe every line is a question.
    """
    options: Json = {}
    if k is not None:
        options["k"] = k
    if service is not None:
        options["filters"] = {"service": service}
    with connect() as cairn, _questions() as questions:
        last = thread.recall(cairn.target.url) if again else None
        for question in questions:
            if question == NEW:
                last = None
                continue
            try:
                last = _answered(cairn, question, options, last)
            except NotAllowed:
                raise
            except CliError as exc:  # the next question may fare better
                screen.note(f"cairn: {exc.message}", style="red")
                if exc.hint:
                    screen.note(f"       {exc.hint}")


def _answered(cairn: Cairn, question: str, options: Json, last: Thread | None) -> Thread:
    body: Json = {"question": question, **options}
    if last is not None and (runbook := last.chosen(question)):
        body |= {"question": last.question, "filters": {"runbooks": [runbook]}}
    elif last is not None:
        body["context"] = last.context()
    try:
        answer = streamed(cairn, body, as_json=False)
    except KeyboardInterrupt:  # Ctrl-C is for the answer; the question is withdrawn with the connection
        screen.note("(withdrawn)")
        return last or Thread(question, ())
    screen.say()
    if answer["mode"] == "unavailable":
        return last or Thread(question, ())
    now = Thread.after(body, answer)
    thread.remember(now, cairn.target.url)
    return now


@contextmanager
def _questions() -> Iterator[Iterator[str]]:
    """The questions, one after the other, without blank ones: typed at a prompt with history, or lines of a pipe."""
    if not sys.stdin.isatty():
        yield (line.strip() for line in sys.stdin if line.strip())
        return
    session = _session()
    screen.note(HELP, style="dim")
    yield _typed(session)


def _typed(session: PromptSession[str]) -> Iterator[str]:
    while True:
        try:
            text = session.prompt("? ").strip()
        except KeyboardInterrupt:
            continue  # the line is given up, as in a shell
        except EOFError:
            return
        if text:
            yield text


def _session() -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        file = thread.folder() / HISTORY
        file.touch(mode=0o600)
    except OSError:
        return PromptSession(history=InMemoryHistory())
    return PromptSession(history=FileHistory(str(file)))
