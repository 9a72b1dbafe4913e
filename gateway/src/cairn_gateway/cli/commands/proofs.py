"""`cairn verify-fallback` and `cairn eval`: proofs on a running stack."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from cairn_gateway.cli import fallback, screen
from cairn_gateway.cli.client import Cairn, Json, as_object, connect
from cairn_gateway.cli.exits import Negative, UsageError
from cairn_gateway.cli.options import AsJson, segment
from cairn_gateway.cli.target import KEY_VARIABLE, URL_VARIABLE, find_target

ASK_TIMEOUT = 120.0
EVALUATION = Path("tests") / "eval"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("verify-fallback")(verify_fallback)
    app.command("eval", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(evaluate)


def verify_fallback(
    question: Annotated[
        str | None,
        typer.Option(help="What to ask; otherwise a stored runbook's title, and the time.", show_default=False),
    ] = None,
    within: Annotated[float, typer.Option(min=0.1, help="Seconds that the answer may take.")] = 20.0,
    as_json: AsJson = False,
) -> None:
    """Prove that Cairn answers without its language model: stop the model (or configure none) and run this.

    The answer must say so, come in time, and be the cited runbook's own steps, word for word. Ends with 1 if not.
    """
    with connect() as cairn:
        asked = question or _question(cairn)
        started = time.monotonic()
        answer = as_object(cairn.request("POST", "/ask", body={"question": asked}, timeout=ASK_TIMEOUT))
        seconds = time.monotonic() - started
        ids = {step["runbook_id"] for step in fallback.cited_steps(answer)}
        runbooks = {runbook_id: cairn.get(f"/runbooks/{segment(runbook_id)}") for runbook_id in ids}
    checks = fallback.judge(answer, seconds, within, runbooks)
    failed = [check.name for check in checks if not check.ok]
    if as_json:
        screen.data(
            {"ok": not failed, "question": asked, "checks": [check.to_json() for check in checks], "answer": answer}
        )
    else:
        screen.say(f"asked: {asked}")
        for check in checks:
            verdict = "ok" if check.ok else "FAILED"
            screen.say(f"{check.name:<11}{verdict:<8}{check.detail}", style=screen.mood(check.ok))
    if answer["mode"] in {"full", "cached"}:
        hint = "stop the model first" if answer["mode"] == "full" else "ask something that was not asked before"
        raise Negative("the answer came from the language model, so this proves nothing", hint=hint)
    if failed:
        raise Negative(f"failed: {', '.join(failed)}")


def evaluate(context: typer.Context) -> None:
    """Measure search and answers on the evaluation sets of the checkout; arguments go to tests/eval."""
    checkout = _checkout(Path.cwd())
    target = find_target(os.environ, Path.cwd())
    environment = os.environ | {URL_VARIABLE: target.url} | ({KEY_VARIABLE: target.key} if target.key else {})
    command = [sys.executable, str(checkout / EVALUATION), *context.args]
    sys.stdout.flush()
    raise typer.Exit(subprocess.run(command, cwd=checkout, env=environment, check=False).returncode)  # noqa: S603 - our own file


def _question(cairn: Cairn) -> str:
    page: Json = cairn.get("/runbooks", params={"limit": 1})
    if not page["runbooks"]:
        raise Negative("there is no runbook to ask about", hint="`cairn seed` loads some")
    # The time makes it a question that nobody asked before: one whose answer is kept would prove nothing.
    return f"{page['runbooks'][0]['title']}, {time.strftime('%H:%M:%S')}"


def _checkout(folder: Path) -> Path:
    for parent in (folder, *folder.parents):
        if (parent / EVALUATION / "__main__.py").is_file():
            return parent
    raise UsageError("there is no tests/eval in this folder or above", hint="run it in the checkout")
