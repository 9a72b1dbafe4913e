"""The retriever's API: `POST /search`."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from cairn_shared.alerts import WITHOUT_USE, one_alert
from cairn_shared.api.fields import MAX_TEXT, WITHOUT_NUL, Moment, Text

MAX_QUERY_CHARACTERS = MAX_TEXT
MAX_K = 100
MAX_RUNBOOKS = 20

Mode = Literal["hybrid", "semantic", "keyword"]
Fusion = Literal["learned", "tm2c2", "rrf", "seed"]


class SearchFilters(BaseModel):
    """What to search in; an absent filter does not restrict."""

    model_config = ConfigDict(extra="forbid")

    kind: Annotated[
        Literal[
            "runbook", "event", "commit", "pull_request", "issue", "ticket", "comment", "deployment", "alert", "log"
        ]
        | None,
        Field(description="`event` means everything that is not a runbook."),
    ] = None
    runbooks: Annotated[
        list[Text], Field(max_length=MAX_RUNBOOKS, description="Only these runbooks, by their id; no events then.")
    ] = []
    source: Text | None = None
    service: Text | None = None
    since: Moment | None = None
    until: Moment | None = None


class AlertContext(BaseModel):
    """The alert somebody was paged for, as Alertmanager describes it; the whole body of its webhook is taken too."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=500), WITHOUT_NUL] | None = None
    labels: dict[Text, Text] = {}
    annotations: dict[Text, Text] = {}
    runbook_url: Annotated[str, Field(max_length=2000), WITHOUT_NUL] | None = None

    @model_validator(mode="before")
    @classmethod
    def _out_of_a_webhook(cls, value: Any) -> Any:
        try:
            return one_alert(value)
        except ValueError as exc:
            raise PydanticCustomError("no_alert", "{why}", {"why": str(exc)}) from exc

    @model_validator(mode="after")
    def _useful(self) -> Self:
        """An alert that says nothing would be ignored without a word."""
        if not (self.name or self.labels or self.annotations or self.runbook_url):
            raise PydanticCustomError("empty_alert", "{why}", {"why": WITHOUT_USE})
        return self

    @model_validator(mode="after")
    def _named_by_its_labels(self) -> Self:
        """An alert as Alertmanager sends it has its name and its runbook only in labels and annotations."""
        self.name = self.name or self.labels.get("alertname", "")[:500] or None
        self.runbook_url = self.runbook_url or self.annotations.get("runbook_url", "")[:2000] or None
        return self


class SearchRequest(BaseModel):
    """A search. `alert` routes to its runbook before any vector is consulted."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS), WITHOUT_NUL]
    k: Annotated[int, Field(ge=1, le=MAX_K)] = 10
    filters: SearchFilters = SearchFilters()
    mode: Mode = "hybrid"
    fusion: Fusion = "learned"
    alert: AlertContext | None = None
    extra_query: Annotated[
        Annotated[str, Field(max_length=2000), WITHOUT_NUL] | None,
        Field(description="A refined query, searched as well."),
    ] = None
    explain: bool = False


class Hit(BaseModel):
    """One step of a runbook, or one event, with the features that ranked it."""

    kind: str
    document_id: uuid.UUID
    step_id: uuid.UUID
    runbook_id: Annotated[str, Field(description="The runbook's id, or an event's subject.")]
    source: str
    title: str
    step: Annotated[int, Field(description="Step number in the document, from 1.")]
    label: str
    section: str
    text: Annotated[str, Field(description="The whole step, Markdown.")]
    path: str | None = None
    commit: str | None = None
    line_start: int | None = None
    line_end: int | None = None
    url: str | None = None
    service: str | None = None
    severity: str | None = None
    author: Annotated[str | None, Field(description="Of an event: who committed, wrote or opened it.")] = None
    alerts: Annotated[list[str], Field(description="Alerts that a runbook is for, in lower case.")] = []
    version: Annotated[int, Field(description="Revision of the document that was searched.")]
    occurred_at: AwareDatetime | None = None
    indexed_at: AwareDatetime | None = None
    content_sha: str
    count: int = 1
    score: float
    features: Annotated[
        dict[str, Any], Field(description="Raw features: cosine, bm25, coverage, identifiers, age_days ...")
    ]


class HalfVerdict(BaseModel):
    """Whether one half of the corpus, its runbooks or its events, has an answer."""

    document_id: Annotated[uuid.UUID, Field(description="What would be shown first.")]
    confidence: Annotated[float, Field(description="Estimated probability that it is an answer, in [0, 1].")]
    certain: Annotated[
        bool, Field(description="A name or the words of the query lead to it, whatever the vectors say.")
    ]
    enough: bool
    cosine: Annotated[float | None, Field(description="How near it is to the query; None without vectors.")] = None
    rivals: Annotated[
        list[uuid.UUID],
        Field(description="Runbooks that fit about as well, best first; empty where one stands out or is named."),
    ] = []


class Gate(BaseModel):
    """What the relevance gate saw (research: three refusals, the first before the model)."""

    best_cosine: float | None
    best_coverage: float
    confidence: Annotated[float, Field(description="Estimated probability that there is an answer, in [0, 1].")] = 0.0
    identifiers_asked: list[str]
    identifiers_found: list[str]
    routed: Annotated[bool, Field(description="An alert or runbook_url led to a runbook exactly.")]
    enough: Annotated[bool, Field(description="There is something relevant to answer from, in either half.")]
    runbooks: Annotated[HalfVerdict | None, Field(description="None where no runbook was found or wanted.")] = None
    events: Annotated[HalfVerdict | None, Field(description="None where no event was found or wanted.")] = None

    @property
    def first(self) -> Literal["runbooks", "events"] | None:
        """The half that is an answer where the other is none, or is one for certain where the other only may be."""
        of_runbooks, of_events = self.runbooks, self.events
        if of_runbooks is None or of_events is None:
            return None
        for quality in ("enough", "certain"):
            if getattr(of_runbooks, quality) != getattr(of_events, quality):
                return "runbooks" if getattr(of_runbooks, quality) else "events"
        return None


class SearchResponse(BaseModel):
    """Hits best first. `degraded` names what was missing (`embedder`) when search fell back."""

    results: list[Hit]
    mode: Mode
    degraded: list[str] = []
    gate: Gate
    epoch: Annotated[int, Field(description="Grows whenever a runbook's searchable content changes.")]
    fingerprint: str | None
    timings: dict[str, float]
    explain: dict[str, Any] | None = None
