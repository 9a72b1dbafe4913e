"""What the tools give: the structured result, and the text for models that read only text."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field

from cairn_gateway.command_notes import with_notes
from cairn_gateway.schemas.runbooks import RunbookView
from cairn_shared.api.ask import AskResponse, Source
from cairn_shared.api.search import Hit, SearchResponse


class FoundStep(BaseModel):
    """One step of a runbook, or one event."""

    runbook_id: Annotated[str, Field(description="The runbook's id, or an event's subject.")]
    kind: str
    title: str
    step: int
    label: str
    section: str
    text: str
    service: str | None
    severity: str | None
    source: str
    path: str | None
    lines: Annotated[list[int] | None, Field(description="[first, last] line in the source file.")]
    url: str | None
    revision: int
    occurred_at: AwareDatetime | None
    score: float

    @classmethod
    def of(cls, hit: Hit) -> FoundStep:
        """A hit without what only a search engine's author wants to know."""
        lines = None if hit.line_start is None else [hit.line_start, hit.line_end or hit.line_start]
        given = hit.model_dump(include=set(cls.model_fields) - {"lines", "revision"})
        return cls(**given, lines=lines, revision=hit.version)


class Found(BaseModel):
    """Hits, the best first. `degraded` names what was missing; `enough`: whether any is really about the query."""

    results: list[FoundStep]
    mode: str
    degraded: list[str]
    enough: bool

    @classmethod
    def of(cls, response: SearchResponse) -> Found:
        """From the gateway's answer."""
        return cls(
            results=[FoundStep.of(hit) for hit in response.results],
            mode=response.mode,
            degraded=response.degraded,
            enough=response.gate.enough,
        )


def answer_text(answer: AskResponse) -> str:
    """The answer, what it lacks, the commands of the cited steps with their labels, and where those steps are."""
    text = with_notes(answer)
    cited = [source for source in answer.sources if source.cited]
    return "\n\n".join([text, "Cited:\n" + "\n".join(f"- {_place(source)}" for source in cited)]) if cited else text


def found_text(found: Found) -> str:
    """The hits one after another."""
    if not found.results:
        return "Nothing was found."
    parts = [f"Searched without {', '.join(found.degraded)}."] if found.degraded else []
    if not found.enough:
        parts.append("None of these is surely about the query.")
    for hit in found.results:
        what = f"Step {hit.step}" if hit.kind == "runbook" else hit.kind
        when = f", {hit.occurred_at.isoformat()}" if hit.occurred_at else ""
        parts.append(f"## {hit.title}, {what}{when}\nid: {hit.runbook_id}\n\n{hit.text}")
    return "\n\n".join(parts)


def runbook_text(runbook: RunbookView) -> str:
    """The whole runbook, its steps numbered as they are cited."""
    facts = {
        "id": runbook.id,
        "revision": str(runbook.revision),
        "service": runbook.service,
        "severity": runbook.severity,
        "owner": runbook.owner,
        "source": runbook.path and f"{runbook.source}: {runbook.path}",
        "url": runbook.url,
    }
    head = "\n".join(f"{name}: {value}" for name, value in facts.items() if value)
    parts = [f"# {runbook.title}\n{head}"]
    section = ""
    for step in runbook.steps:
        if step.section != section:
            section = step.section
            parts.append(f"## {section}")
        parts.append(f"### Step {step.number}\n{step.body}")
    return "\n\n".join(parts)


def _place(source: Source) -> str:
    lines = f":{source.lines[0]}-{source.lines[1]}" if source.path and source.lines else ""
    place = " ".join(part for part in (f"{source.path}{lines}" if source.path else "", source.url or "") if part)
    what = f"Step {source.step}" if source.kind == "runbook" else source.kind
    return f"{source.title}, {what}; id {source.runbook_id}" + (f" ({place})" if place else "")
