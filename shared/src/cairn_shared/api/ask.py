"""`POST /ask`: the question, and the answer in its final shape (design §8)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from cairn_shared.api.fields import WITHOUT_NUL, Text
from cairn_shared.api.search import MAX_QUERY_CHARACTERS, MAX_RUNBOOKS, AlertContext, SearchFilters

REFUSAL = "I don't have a runbook covering that"

AnswerMode = Literal["full", "cached", "excerpts", "keyword", "choose", "refused", "unavailable"]
Question = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY_CHARACTERS), WITHOUT_NUL
]


class Seen(BaseModel):
    """A runbook that an answer rested on. Known by its id, or by its title where the client has only the text."""

    model_config = ConfigDict(extra="forbid")

    runbook_id: Text | None = None
    title: Text | None = None
    steps: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=400)] = []

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not (self.runbook_id or self.title):
            raise PydanticCustomError("unnamed", "runbook_id or title must be given")
        return self


class Earlier(BaseModel):
    """What a question comes after: the question before it, and what the answer to that rested on.

    The client sends it along; nothing of a conversation is kept here.
    """

    model_config = ConfigDict(extra="forbid")

    question: Question
    cited: Annotated[list[Seen], Field(max_length=MAX_RUNBOOKS, description="Most important first.")] = []


class AskRequest(BaseModel):
    """A question, optionally with the alert that raised it and with what was asked before."""

    model_config = ConfigDict(extra="forbid")

    question: Question
    alert: AlertContext | None = None
    context: Annotated[
        Earlier | None,
        Field(
            description="What was asked and shown before. A question that stands for itself is answered as if alone."
        ),
    ] = None
    k: Annotated[int, Field(ge=1, le=20, description="How many steps to answer from.")] = 8
    stream: bool = False
    filters: SearchFilters = SearchFilters()
    min_revision: Annotated[
        dict[Text, Annotated[int, Field(ge=0, lt=2**63)]],
        Field(description="Wait (briefly) until these runbooks are searchable at these revisions: {id: revision}."),
    ] = {}
    wait_for: Annotated[list[Text], Field(max_length=20, description="Event ids to wait for, briefly.")] = []


Origin = Literal["runbook", "event", "model"]


class Citation(BaseModel):
    """Where a claim stands; `marker` is rendered by code: `[Runbook title, Step N]`."""

    runbook_id: str
    title: str
    step: int
    marker: str
    label: Annotated[str, Field(description="The step's number as its author wrote it.")] = ""
    path: str | None = None
    lines: Annotated[list[int] | None, Field(description="[first, last] line of the step in its file.")] = None
    byline: Annotated[str, Field(description="Of an event: who, when and where, as far as that is known.")] = ""


class Claim(BaseModel):
    """One part of an answer: the words of a step (`runbook`), of an event's report (`event`), or of the model.

    The first two are verbatim from the index and cite one step. What the model says in its own words cites nothing
    and is never to be shown as verified.
    """

    text: str
    citations: list[Citation] = []
    origin: Origin = "runbook"


class Command(BaseModel):
    """A command found in a step, with the alert's values filled in."""

    text: str
    safety: Literal["read-only", "changes state", "destructive"]
    unfilled: Annotated[list[str], Field(description="Placeholders for which no value is known.")] = []
    template: Annotated[
        str | None, Field(description="As it stands in the step, where the alert's values were filled in.")
    ] = None


class Source(BaseModel):
    """A step that was retrieved; `cited` tells whether the answer rests on it."""

    runbook_id: str
    kind: str = "runbook"
    title: str
    step: int
    label: str
    section: str
    path: str | None = None
    commit: str | None = None
    lines: Annotated[list[int] | None, Field(description="[first, last] line in the source file.")] = None
    url: str | None = None
    author: Annotated[str | None, Field(description="Of an event.")] = None
    occurred_at: Annotated[AwareDatetime | None, Field(description="Of an event.")] = None
    revision: int | None = None
    cited: bool = False
    score: float
    content: str | None = None
    commands: list[Command] = []
    unlabelled_commands: Annotated[
        int, Field(description="Further commands of the step, which are too many to be listed: they have no label.")
    ] = 0


class NearPage(BaseModel):
    """A runbook that is near the question, but was judged not to answer it."""

    runbook_id: str
    title: str
    step: Annotated[int, Field(description="The step that is nearest to the question.")] = 0
    section: Annotated[str, Field(description="The headings above that step.")] = ""
    why: Annotated[str, Field(description="The beginning of that step, verbatim: why the page is near.")] = ""
    path: str | None = None
    url: str | None = None


class Choice(BaseModel):
    """One of several runbooks that fit the question about as well. Its texts are verbatim from the index."""

    runbook_id: str
    title: str
    about: Annotated[str, Field(description="What it is for: the beginning of what its first section says.")]
    first_step: Annotated[str, Field(description="The beginning of the first step that it takes.")]
    marker: Annotated[str, Field(description="Where the first step stands: `[Runbook title, Step N]`.")]
    path: str | None = None
    url: str | None = None


class PendingRevision(BaseModel):
    """A newer revision of a cited runbook that is not searchable yet."""

    runbook_id: str
    indexed_revision: int
    latest_revision: int


class Freshness(BaseModel):
    """How current the answer is."""

    index_time: AwareDatetime | None = None
    lag_seconds: float | None = None
    pending: list[PendingRevision] = []


class AskResponse(BaseModel):
    """The answer. Always 200: `mode` and `degraded_reason` tell what could not be done."""

    answer: str
    mode: AnswerMode
    degraded: bool = False
    degraded_reason: str | None = None
    follows: Annotated[bool, Field(description="The question was taken to be about what `context` says was shown.")] = (
        False
    )
    claims: list[Claim] = []
    dropped_claims: int = 0
    sources: list[Source] = []
    choices: Annotated[
        list[Choice],
        Field(description="Mode `choose`: ask again with `filters.runbooks` set to the `runbook_id` of one of them."),
    ] = []
    nearest: Annotated[
        list[NearPage], Field(description="Where a refusal leaves one to look: the nearest runbooks, best first.")
    ] = []
    missing_alert: Annotated[
        str | None,
        Field(description="The request's alert, where no runbook is for it: what is shown is for something near it."),
    ] = None
    freshness: Freshness = Freshness()
    timings: dict[str, float] = {}
    request_id: str | None = None
