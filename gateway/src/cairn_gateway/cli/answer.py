"""How an answer looks: the text, how it came about, the steps it rests on and their commands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from textwrap import indent
from typing import TYPE_CHECKING, Any

from cairn_gateway.cli import screen, steps
from cairn_gateway.cli.markdown import styled

if TYPE_CHECKING:
    from rich.text import Text

Json = dict[str, Any]

MODE_STYLES = {
    "full": "bold green",
    "cached": "bold green",
    "excerpts": "bold yellow",
    "keyword": "bold yellow",
    "choose": "bold yellow",
    "refused": "bold red",
    "unavailable": "bold red",
}
SAFETY_STYLES = {"read-only": "green", "changes state": "yellow", "destructive": "bold red"}
COMMIT_CHARACTERS = 10


def show(answer: Json) -> None:
    """The whole answer."""
    sources = answer.get("sources", [])
    told = answer.get("claims", [])
    parts = steps.claims(told, steps.Desk(sources)) if told else steps.blocks(answer["answer"], sources)
    for part in parts:
        show_part(part)
    show_details(answer, parts)


def show_part(part: steps.Block) -> None:
    """One part of the text, with what is to be said of its commands below it."""
    if text := part.text.strip("\n"):
        screen.say(styled(text) if screen.interactive() else text)
        show_notes(part)
        screen.say()


def show_notes(part: steps.Block) -> None:
    """Below a step: how safe its commands are, what an alert filled in, and what is left to fill in."""
    from rich.text import Text

    for label, text in steps.notes(part):
        body = indent(screen.clean(text), " " * (len(label) + 5)).lstrip()
        screen.say(Text.assemble("  ", (f"[{label}]", SAFETY_STYLES.get(label, "yellow")), " ", body))


def show_details(answer: Json, shown: Sequence[steps.Block]) -> None:
    """Everything but the text, for a reader who has seen that in the parts `shown`."""
    sources = answer.get("sources", [])
    noted = {steps.place_of(source) for part in shown for source in part.sources}
    show_mode(answer)
    show_nearest(answer.get("nearest", []))
    show_sources(sources)
    if not answer.get("claims"):
        show_commands([source for source in sources if source.get("cited") and steps.place_of(source) not in noted])
    show_freshness(answer)


def show_mode(answer: Json) -> None:
    """The mode, why it is not the best one, and how long it took."""
    from rich.text import Text

    mode = answer["mode"]
    line = Text.assemble("mode ", (mode, MODE_STYLES.get(mode, "bold")))
    if answer.get("degraded"):
        line.append(f", degraded: {reason(answer)}", "yellow")
    if dropped := answer.get("dropped_claims"):
        line.append(f", {dropped} part{'s' if dropped > 1 else ''} of the model's plan did not exist", "yellow")
    if answer.get("follows"):
        line.append(", about the answer before", "dim")
    if alert := answer.get("missing_alert"):
        from cairn_gateway.command_notes import missing_alert

        screen.say(missing_alert(screen.clean(alert)), style="yellow")
    total = answer.get("timings", {}).get("total_ms")
    if total is not None:
        line.append(f", {total / 1000:.3f} s", "dim")
    screen.say(line)


def show_nearest(pages: Sequence[Json]) -> None:
    """Below a refusal: what may be worth a look all the same."""
    if pages:
        screen.say("nearest runbooks, judged not to answer this:")
    for page in pages:
        screen.say(f"  {screen.clean(page['title'])} ({screen.clean(page['runbook_id'])})")
        if why := page.get("why"):
            screen.say(f"      step {page['step']}: {screen.clean(why)}", style="dim")
    if pages:
        screen.say(f'to be answered from one all the same: cairn ask --runbook {pages[0]["runbook_id"]} "..."')


def reason(answer: Json) -> str:
    """Why the answer is not the best possible, its codes as words."""
    return screen.clean(answer.get("degraded_reason") or "no reason given").replace("_", " ")


def show_sources(sources: Sequence[Json]) -> None:
    """The retrieved steps, those first that the answer cites: a line for each runbook, for pipes one for each step."""
    if screen.interactive():
        _show_runbooks(sources)
        return
    for source in sorted(sources, key=lambda source: not source.get("cited")):
        cells = (
            "cited" if source.get("cited") else "",
            source["runbook_id"],
            str(source.get("label") or source["step"]),
            source["title"],
            place(source.get("path"), source.get("lines"), source.get("url")),
            (source.get("commit") or "")[:COMMIT_CHARACTERS],
            f"{score:.3f}" if (score := float(source["score"])) else "",  # one shown for completeness was not searched
        )
        screen.say("\t".join(screen.clean(cell).replace("\t", " ").replace("\n", " ") for cell in cells))


def _show_runbooks(sources: Sequence[Json]) -> None:
    from rich.text import Text

    groups: dict[tuple[bool, str], list[Json]] = {}
    for source in sorted(sources, key=lambda source: not source.get("cited")):
        groups.setdefault((bool(source.get("cited")), source["runbook_id"]), []).append(source)
    for (cited, runbook_id), members in groups.items():
        lines = [number for member in members for number in member.get("lines") or ()]
        where = place(members[0].get("path"), [min(lines), max(lines)] if lines else None, members[0].get("url"))
        numbers = steps.ranges([member["step"] for member in members])
        line = Text.assemble(("cited  ", "green") if cited else ("found  ", "dim"), screen.clean(where or runbook_id))
        line.append(f"  step{'' if numbers.isdigit() else 's'} {numbers}")
        line.append("" if cited else f" of {screen.clean(members[0]['title'])}", "dim")
        if commit := members[0].get("commit"):
            line.append(f"  commit {commit[:COMMIT_CHARACTERS]}", "dim")
        screen.say(line)


def show_commands(sources: Sequence[Json]) -> None:
    """The commands of these steps, by runbook, each with its step and safety."""
    from rich.text import Text

    for title, group in groupby((source for source in sources if source.get("commands")), key=itemgetter("title")):
        screen.say(Text(f"\nCommands of {screen.clean(title)}", "bold"))
        for source in group:
            for command in source["commands"]:
                screen.say(_command(str(source.get("label") or source["step"]), command))


def _command(step: str, command: Json) -> Text:
    from rich.text import Text

    safety, text = command["safety"], screen.clean(command["text"])
    line = Text.assemble(f"{step:>3}  ", (f"{safety:<13}", SAFETY_STYLES.get(safety, "")), "  ")
    line.append(text if "\n" not in text else indent(text, " " * line.cell_len).lstrip())
    if command.get("unfilled"):
        line.append(f"   fill in: {', '.join(map(screen.clean, command['unfilled']))}", "yellow")
    return line


def show_freshness(answer: Json) -> None:
    """What the answer may not know yet."""
    freshness = answer.get("freshness", {})
    for pending in freshness.get("pending", []):
        screen.say(
            f"{pending['runbook_id']}: answered from revision {pending['indexed_revision']}, "
            f"revision {pending['latest_revision']} is on its way",
            style="yellow",
        )
    if freshness.get("index_time"):
        lag = freshness.get("lag_seconds")
        took = "" if lag is None else f"; its last change took {lag:.1f} s to become searchable"
        screen.say(f"index of {freshness['index_time']}{took}", style="dim")


def place(path: str | None, lines: Sequence[int] | None, url: str | None = None) -> str:
    """`path:first-last`, as editors open it; the address where there is no file."""
    if not path or not lines:
        return path or url or ""
    first, last = lines[0], lines[-1]
    return f"{path}:{first}" if first == last else f"{path}:{first}-{last}"
