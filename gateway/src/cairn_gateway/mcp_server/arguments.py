"""The tools' arguments: flat, because models fill flat ones best."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cairn_shared.api.ask import AskRequest, Earlier, Question, Seen
from cairn_shared.api.fields import WITHOUT_NUL, Moment, Text
from cairn_shared.api.search import MAX_QUERY_CHARACTERS, MAX_RUNBOOKS, AlertContext, SearchFilters, SearchRequest
from cairn_shared.runbooks.model import RunbookId

Kind = Literal["runbook", "event", "commit", "pull_request", "issue", "ticket", "comment", "deployment", "alert", "log"]


class Arguments(BaseModel):
    """Base: unknown arguments are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AskArguments(Arguments):
    """Of `ask`."""

    question: Annotated[
        Question,
        Field(
            description="What the engineer wants to know, in their words, with error messages and names as they are."
        ),
    ]
    alert_name: Annotated[
        Annotated[str, Field(max_length=500), WITHOUT_NUL] | None,
        Field(description="The alert that raised the question, if one did."),
    ] = None
    alert_labels: Annotated[
        dict[Text, Text] | None, Field(description="The alert's labels; they fill placeholders in commands.")
    ] = None
    runbook_url: Annotated[
        Annotated[str, Field(max_length=2000), WITHOUT_NUL] | None,
        Field(description="The alert's runbook_url annotation: leads to that runbook."),
    ] = None
    service: Annotated[Text | None, Field(description="Only this service's runbooks.")] = None
    earlier_question: Annotated[
        Question | None,
        Field(description="The question before, if this one may be about its answer: `what if that fails?`."),
    ] = None
    earlier_runbooks: Annotated[
        list[RunbookId],
        Field(max_length=MAX_RUNBOOKS, description="With it: the runbook_id of each source that answer cited."),
    ] = []
    k: Annotated[int, Field(ge=1, le=20, description="How many steps to answer from.")] = 8

    def request(self) -> AskRequest:
        """The request to the gateway."""
        alert = None
        if self.alert_name or self.alert_labels or self.runbook_url:
            alert = AlertContext(name=self.alert_name, labels=self.alert_labels or {}, runbook_url=self.runbook_url)
        earlier = None
        if self.earlier_question:
            cited = [Seen(runbook_id=runbook_id) for runbook_id in self.earlier_runbooks]
            earlier = Earlier(question=self.earlier_question, cited=cited)
        return AskRequest(
            question=self.question,
            alert=alert,
            context=earlier,
            k=self.k,
            filters=SearchFilters(service=self.service),
        )


class SearchArguments(Arguments):
    """Of `search`."""

    query: Annotated[
        str,
        Field(
            min_length=1, max_length=MAX_QUERY_CHARACTERS, description="Words, or an error message or name as it is."
        ),
        WITHOUT_NUL,
    ]
    kind: Annotated[Kind | None, Field(description="Only this kind; `event` is everything that is not a runbook.")] = (
        None
    )
    service: Annotated[Text | None, Field(description="Only what belongs to this service.")] = None
    source: Annotated[Text | None, Field(description="Only from this source, such as a repository.")] = None
    since: Annotated[Moment | None, Field(description="Only what happened since: ISO 8601 with zone.")] = None
    until: Annotated[Moment | None, Field(description="Only what happened until: ISO 8601 with zone.")] = None
    k: Annotated[int, Field(ge=1, le=50, description="How many hits.")] = 8

    def request(self) -> SearchRequest:
        """The request to the gateway."""
        filters: dict[str, Any] = {
            name: getattr(self, name) for name in ("kind", "service", "source", "since", "until")
        }
        return SearchRequest(query=self.query, k=self.k, filters=SearchFilters(**filters))


class GetRunbookArguments(Arguments):
    """Of `get_runbook`."""

    runbook_id: Annotated[RunbookId, Field(description="As answers, sources and hits name it.")]
