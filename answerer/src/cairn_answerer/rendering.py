"""Passages and checked claims as the parts of a response."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence

from cairn_answerer.commands import commands
from cairn_answerer.model import CheckedClaim, Passage
from cairn_shared.api.ask import Source


def source(passage: Passage, *, cited: bool, values: Mapping[str, str]) -> Source:
    """One passage with all that an engineer needs to trust and to use it; `values` fill placeholders."""
    # Events are reports, not instructions: nothing in them is offered to be run.
    labelled, further = commands(passage.text, values) if passage.is_runbook else ([], 0)
    return Source(
        runbook_id=passage.runbook_id,
        kind=passage.kind,
        title=passage.title,
        step=passage.number,
        label=passage.label,
        section=passage.section,
        path=passage.path,
        commit=passage.commit,
        lines=list(passage.lines) if passage.lines else None,
        url=passage.url,
        revision=passage.version,
        cited=cited,
        score=passage.score,
        content=passage.text,
        commands=labelled,
        unlabelled_commands=further,
    )


def sources(passages: Sequence[Passage], cited: Collection[uuid.UUID], values: Mapping[str, str]) -> tuple[Source, ...]:
    """All passages in the order given; `cited` are the step ids that the answer rests on."""
    return tuple(source(passage, cited=passage.step_id in cited, values=values) for passage in passages)


def answer(claims: Sequence[CheckedClaim]) -> str:
    """Claims as Markdown, each with the markers of what supports it, events apart from runbooks."""
    instructions = [claim for claim in claims if any(passage.is_runbook for passage in claim.support)]
    reports = [claim for claim in claims if claim not in instructions]
    parts = [_line(claim) for claim in instructions]
    if reports:
        parts.append("Reported by events, not by a runbook:")
        parts.extend(f"- {_line(claim)}" for claim in reports)
    return "\n\n".join(parts)


def _line(claim: CheckedClaim) -> str:
    markers = " ".join(dict.fromkeys(passage.marker for passage in claim.support))
    separator = "\n\n" if claim.text.rstrip().endswith(("```", "~~~")) else " "
    return f"{claim.text}{separator}{markers}"
