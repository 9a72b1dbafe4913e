"""How an answer that prints steps in full looks, and tables in a narrow terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import Result

from cairn_gateway.cli import answer, screen, steps

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway

Run = Callable[..., Result]
ONE = "Look.\n\n```sh\nredis-cli ping\nredis-cli info\n```"
TWO = "Stop it.\n\n```sh\nkubectl -n <namespace> delete pod <pod>\nredis-cli -h <host> shutdown\n```"


def source(number: int, content: str, *commands: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "runbook_id": "redis-down", "title": "Redis down", "step": number, "label": str(number), "section": "Steps",
        "path": "redis/down.md", "lines": [number * 10, number * 10 + 9], "cited": True, "score": 0.5,
        "content": content, "commands": list(commands), **more,
    }  # fmt: skip


SOURCES = [
    source(
        2,
        TWO,
        {"text": "kubectl -n prod delete pod a-1", "safety": "destructive"},
        {"text": "redis-cli -h <host> shutdown", "safety": "destructive", "unfilled": ["<host>"]},
    ),
    source(1, ONE, *({"text": f"redis-cli {word}", "safety": "read-only"} for word in ("ping", "info"))),
    source(7, "Other.", cited=False, runbook_id="other", title="Other", path="o.md"),
]
TEXT = f"**[Redis down, Step 1]** (Steps)\n\n{ONE}\n\n**[Redis down, Step 2]**\n\n{TWO}\n\nNot shown here: step 3."
ANSWER: dict[str, Any] = {
    "answer": TEXT,
    "mode": "excerpts",
    "sources": SOURCES,
    "freshness": {"index_time": "2026-01-02T03:04:05Z", "lag_seconds": 27.9},
}


def test_the_parts_of_an_answer_make_up_the_answer_and_know_their_steps() -> None:
    parts = steps.blocks(TEXT, SOURCES)
    assert "".join(part.text for part in parts) == TEXT
    assert [source["step"] for part in parts for source in part.sources] == [1, 2]


@pytest.mark.parametrize("text", ["Restart it. [Redis down, Step 1]", "**[Redis down, Step 1]**\n\nNo.\n\nx", ""])
def test_a_text_that_does_not_hold_the_step_is_left_alone(text: str) -> None:
    assert [part for part in steps.blocks(text, SOURCES) if part.sources] == []


def test_commands_are_marked_below_their_step_and_not_listed_again(gateway: FakeGateway, cairn: Run) -> None:
    gateway.answer = ANSWER
    shown = cairn("ask", "why?").stdout
    assert f"{ONE}\n  [read-only] all commands\n\n**[Redis down, Step 2]**" in shown
    assert (
        f"{TWO}\n  [destructive] kubectl -n prod delete pod a-1\n"
        "  [destructive] redis-cli -h <host> shutdown\n  [fill in] <host>\n\nNot shown here: step 3.\n"
    ) in shown
    assert "Commands of" not in shown
    assert "index of 2026-01-02T03:04:05Z; its last change took 27.9 s to become searchable" in shown


def test_a_long_command_is_given_by_its_beginning_but_a_filled_one_whole() -> None:
    long = "rm -rf " + "x" * 200
    (kept,) = steps.notes(steps.Block(long, (source(1, long, {"text": long, "safety": "destructive"}),)))
    assert kept == ("destructive", long[:99] + "…")
    (filled,) = steps.notes(steps.Block("rm <it>", (source(1, "rm <it>", {"text": long, "safety": "destructive"}),)))
    assert filled == ("destructive", long)


def test_commands_without_a_label_are_counted() -> None:
    many = {**source(1, "x", {"text": "ls -l", "safety": "read-only"}), "unlabelled_commands": 7}
    assert ("not labelled", "7 further commands") in list(steps.notes(steps.Block("ls -l", (many,))))


def test_a_person_sees_one_line_of_sources_for_each_runbook(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "interactive", lambda: True)
    answer.show_sources(SOURCES)
    assert capsys.readouterr().out.splitlines() == [
        "cited  redis/down.md:10-29  steps 1-2",
        "found  o.md:70-79  step 7 of Other",
    ]


@pytest.mark.parametrize("identifier", ["mongodb-connection-limit-reached", "x" * 78])
def test_ids_are_never_broken_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], identifier: str
) -> None:
    monkeypatch.setattr(screen, "interactive", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    title = "A rather long title of a runbook about connections that cannot be had"
    screen.table(("Id", "Title", "Rev", "Path"), [(identifier, title, 3, "mongodb/limit.md")], right=("Rev",))
    shown = capsys.readouterr().out
    assert identifier in shown
    assert "mongodb/limit.md" in shown


def test_numbers_of_steps_are_told_as_ranges() -> None:
    assert steps.ranges([3, 1, 2, 7]) == "1-3, 7"


def claim(text: str, step: int) -> dict[str, Any]:
    marker = f"[Redis down, Step {step}]"
    citation = {
        "runbook_id": "redis-down",
        "title": "Redis down",
        "step": step,
        "marker": marker,
        "path": "redis/down.md",
    }
    return {"text": text, "citations": [citation], "origin": "runbook"}


CLAIMS: list[dict[str, Any]] = [
    {"text": "First see whether it lives.", "origin": "model"},
    claim("```sh\nredis-cli ping\n```", 1),
    claim(TWO, 2),
    claim("Then wait.", 3),
]
TOLD = {**ANSWER, "mode": "full", "claims": CLAIMS}


@pytest.mark.parametrize("way", ["whole", "streamed"])
def test_commands_stand_below_the_part_that_shows_them(gateway: FakeGateway, cairn: Run, way: str) -> None:
    """Step 1 is shown in part: what is left out of it is not offered. Of step 2 an alert filled one in."""
    gateway.answer = TOLD
    uncited = [{**source, "cited": False} for source in SOURCES]
    gateway.stream = [("sources", {"sources": uncited}), *(("claim", claim) for claim in CLAIMS), ("done", TOLD)]
    shown = cairn("ask", *(["--stream"] if way == "streamed" else []), "why?").stdout
    assert shown.startswith(
        "> *In the model's words:* First see whether it lives.\n\n"
        "**[Redis down, Step 1]** (redis/down.md)\n\n```sh\nredis-cli ping\n```\n"
        "  [read-only] the command\n"
        "\n"
        f"**[Redis down, Step 2]** (redis/down.md)\n\n{TWO}\n"
        "  [destructive] kubectl -n prod delete pod a-1\n"
        "  [destructive] redis-cli -h <host> shutdown\n"
        "  [fill in] <host>\n"
        "\n"
        "**[Redis down, Step 3]** (redis/down.md)\n\nThen wait.\n"
        "\n"
        "mode full"
    )
    assert "redis-cli info" not in shown
    assert "Commands of" not in shown


def test_a_refusal_offers_no_commands(gateway: FakeGateway, cairn: Run) -> None:
    nothing = [{**source, "cited": False} for source in SOURCES]
    gateway.answer = ANSWER | {"answer": "I don't have a runbook covering that", "mode": "refused", "sources": nothing}
    result = cairn("ask", "why?")
    assert result.exit_code == 1
    assert "shutdown" not in result.stdout
