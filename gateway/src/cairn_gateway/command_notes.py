"""What is to be said below an answer's text: how safe its commands are, what the answer lacks, where else to look.

For every reader of text alike: the command line, chat clients, and models that call the MCP tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cairn_shared.api.ask import AskResponse, NearPage

Json = dict[str, Any]

READ_ONLY = "read-only"


def notes(shown: str, sources: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Safety and text of what to say below `shown`: read-only commands as a number, every other one by its beginning.

    A command that does not stand in the text as it is (a value of the alert was filled in) is given whole; one that
    the text leaves out, because it shows a part of the step only, is left out here too.
    """
    flat = _flat(shown)
    commands = [command for source in sources for command in _told(source, flat)]
    as_written = [command for command in commands if _flat(command["text"]) in flat]
    count = Counter(command["safety"] for command in as_written)[READ_ONLY]
    if count:
        every = count == len(commands)
        yield READ_ONLY, ("the command" if count == 1 else "all commands") if every else f"{count} of {len(commands)}"
    for command in commands:
        if command not in as_written:
            yield command["safety"], command["text"]
        elif command["safety"] != READ_ONLY:
            yield command["safety"], shortened(command["text"])
    if further := sum(source.get("unlabelled_commands", 0) for source in sources):
        yield "not labelled", f"{further} further commands"
    if unfilled := list(dict.fromkeys(name for command in commands for name in command.get("unfilled", []))):
        yield "fill in", ", ".join(unfilled)


def _told(source: Json, flat: str) -> list[Json]:
    """The commands of a step that a text shows."""
    commands: list[Json] = source.get("commands", [])
    if _flat(source.get("content") or "") in flat:
        return commands
    return [command for command in commands if _flat(command.get("template") or command["text"]) in flat]


def shortened(text: str, characters: int = 100) -> str:
    """The beginning of a command on one line."""
    flat = _flat(text)
    return flat if len(flat) <= characters else flat[: characters - 1] + "…"


def with_notes(answer: AskResponse) -> str:
    """The answer as a text that stands for itself: each cited step's commands with their labels, and what it lacks."""
    told = [*_lacks(answer), *_labels(answer), *_nearest(answer)]
    return "\n\n".join([answer.answer, *(["---", *told] if told else [])])


def missing_alert(name: str) -> str:
    """What is to be said where an alert has no runbook."""
    return f"No runbook is for the alert {name}: this is the nearest there is."


def _lacks(answer: AskResponse) -> Iterator[str]:
    if answer.missing_alert:
        yield missing_alert(answer.missing_alert)
    if answer.degraded:
        reason = (answer.degraded_reason or "no reason given").replace("_", " ")
        yield f"Not the best possible answer: {reason} (mode {answer.mode})."
    if answer.dropped_claims:
        many = "s" if answer.dropped_claims > 1 else ""
        yield f"{answer.dropped_claims} part{many} of the model's plan did not exist and was left out."
    for pending in answer.freshness.pending:
        yield (
            f"{pending.runbook_id} was answered from at revision {pending.indexed_revision}; "
            f"revision {pending.latest_revision} is on its way into the index."
        )


def _labels(answer: AskResponse) -> Iterator[str]:
    lines: list[str] = []
    for source in answer.sources:
        if source.cited and (source.commands or source.unlabelled_commands):
            told = [
                f"  - [{label}] {_flat(text)}" for label, text in notes(answer.answer, [source.model_dump(mode="json")])
            ]
            lines += [f"- Step {source.label or source.step} of {source.title}", *told] if told else []
    if lines:
        yield "Commands of the cited steps:\n\n" + "\n".join(lines)


def _nearest(answer: AskResponse) -> Iterator[str]:
    if answer.nearest:
        pages = [f"- {page.title} ({page.runbook_id}){_why(page)}" for page in answer.nearest]
        yield "Nearest runbooks, judged not to answer this:\n\n" + "\n".join(pages)


def _why(page: NearPage) -> str:
    return f", step {page.step}: {page.why}" if page.why else ""


def _flat(text: str) -> str:
    return " ".join(text.split())
