"""Passages and claims as the parts of a response."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence

from cairn_answerer.commands import commands
from cairn_answerer.model import Passage
from cairn_shared.api.ask import Claim, Source
from cairn_shared.narration import Narration


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
        author=passage.author,
        occurred_at=None if passage.is_runbook else passage.occurred_at,
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


def answer(claims: Sequence[Claim]) -> str:
    """The parts of an answer as Markdown: each step's words under its marker, events and the model's words apart."""
    narration = Narration()
    return "".join(_added(narration, claim) for claim in claims)


def _added(narration: Narration, claim: Claim) -> str:
    citation = claim.citations[0] if claim.citations else None
    return narration.add(
        claim.text,
        origin=claim.origin,
        marker=citation.marker if citation else "",
        byline=citation.byline if citation else "",
        path=citation.path if citation else None,
        lines=citation.lines if citation else None,
    )
