"""The parts of Jira's payloads that are used. Comment events carry only a stub of the issue."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import StringConstraints

from cairn_gateway.sources.incoming import Incoming, Time

RichText = str | dict[str, Any] | None
"""Wiki markup (Data Center, API version 2) or an Atlassian Document Format tree (Cloud, version 3)."""


class Named(Incoming):
    name: str | None = None


class User(Incoming):
    displayName: str | None = None  # noqa: N815 - Jira's name
    name: str | None = None

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
    security: Named | None = None
    project: Project | None = None
    components: list[Named] | None = None
    fixVersions: list[Named] | None = None  # noqa: N815 - Jira's name
    labels: list[str] | None = None
    assignee: User | None = None
    reporter: User | None = None
    created: Time | None = None
    updated: Time | None = None


class Issue(Incoming):
    key: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*-[0-9]+$", max_length=100, to_upper=True)]
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
    body: RichText = None
    author: User | None = None
    created: Time | None = None
    updated: Time | None = None
    visibility: dict[str, Any] | None = None
    jsdPublic: bool | None = True  # noqa: N815 - Jira's name

    def restricted(self) -> bool:
        return bool(self.visibility) or self.jsdPublic is False


class Change(Incoming):
    field: str = ""
    fromString: str | None = None  # noqa: N815 - Jira's name


class Changelog(Incoming):
    items: list[Change] | None = None


class Payload(Incoming):
    webhookEvent: Annotated[str, StringConstraints(min_length=1)]  # noqa: N815 - Jira's name
    timestamp: Time | None = None
    user: User | None = None
    issue: Issue | None = None
    comment: Comment | None = None
    changelog: Changelog | None = None
