"""The parts of Jira's payloads that are used. Comment events carry only a stub of the issue."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, StringConstraints, model_validator

from cairn_gateway.sources.incoming import Hidden, Incoming, Time

_ISSUE_IN_ADDRESS = re.compile(r"/issue/([^/\s|]{1,255})/comment/")
RichText = Any
"""Wiki markup (Data Center, API version 2) or an Atlassian Document Format tree or list of nodes (Cloud, version 3)."""


class Named(Incoming):
    """Scripts and older versions write only the name."""

    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data


class User(Named):
    displayName: str | None = None  # noqa: N815 - Jira's name

    def shown(self) -> str | None:
        return self.displayName or self.name


class Project(Incoming):
    key: str | None = None
    name: str | None = None


class Fields(Incoming):
    summary: str | None = None
    description: RichText = None
    environment: RichText = None
    status: Named | None = None
    priority: Named | None = None
    issuetype: Named | None = None
    resolution: Named | None = None
    security: Any = None
    project: Project | None = None
    components: list[Named] | None = None
    fixVersions: list[Named] | None = None  # noqa: N815 - Jira's name
    labels: list[str] | None = None
    assignee: User | None = None
    reporter: User | None = None
    created: Time | None = None
    updated: Time | None = None


class Issue(Incoming):
    key: Annotated[str, StringConstraints(pattern=r"^[^\s/?#|]*\w[^\s/?#|]*$", max_length=255, to_upper=True)]
    id: str | None = None
    self: str | None = None
    fields: Fields = Fields()

    def url(self_) -> str | None:  # noqa: N805 - `self` is a field of Jira's
        """The page of the issue."""
        try:
            parts = urlsplit(self_.self or "")
        except ValueError:
            return None
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            return None
        context = parts.path.partition("/rest/")[0]
        return f"{parts.scheme}://{parts.netloc}{context}/browse/{self_.key}"


class Comment(Incoming):
    id: str
    self: str | None = None
    body: RichText = None
    author: User | None = None
    created: Time | None = None
    updated: Time | None = None
    visibility: Hidden = False
    jsdPublic: Annotated[bool, BeforeValidator(lambda value: value in (True, "true"))] = True  # noqa: N815 - Jira's name

    def restricted(self) -> bool:
        return self.visibility or not self.jsdPublic


class Change(Incoming):
    field: str = ""
    fromString: str | None = None  # noqa: N815 - Jira's name


class Changelog(Incoming):
    items: list[Change] | None = None


class Payload(Incoming):
    webhookEvent: str | None = None  # noqa: N815 - Jira's name
    issue_event_type_name: str | None = None
    timestamp: Time | None = None
    user: User | None = None
    issue: Issue | None = None
    comment: Comment | None = None
    changelog: Changelog | None = None


def issue_number(issue: Issue) -> str | None:
    """`host|10148`: how Jira's addresses name an issue."""
    host = _host(issue.self)
    return f"{host}|{issue.id}" if host and issue.id else None


def comment_number(comment: Comment) -> str | None:
    """As `issue_number`, from the address of a comment: `.../issue/10148/comment/10200`; some have the key there."""
    host, found = _host(comment.self), _ISSUE_IN_ADDRESS.search(comment.self or "")
    return f"{host}|{found[1].upper()}" if host and found else None


def _host(address: str | None) -> str | None:
    try:
        return urlsplit(address or "").netloc.lower() or None
    except ValueError:
        return None
