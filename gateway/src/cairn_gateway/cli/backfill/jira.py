"""The tickets of a Jira and their comments, by its search API.

Cloud has `/rest/api/3/search/jql` with page tokens, Data Center `/rest/api/2/search` with numbers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from cairn_gateway.cli.backfill.items import Item, Items, Json
from cairn_shared.errors import NotFound

Get = Callable[..., Awaitable[Any]]

PAGE = 50
FIELDS = (
    "summary,description,environment,status,priority,issuetype,resolution,security,project,components,fixVersions,"
    "labels,assignee,reporter,created,updated,comment"
)


async def jira_items(get: Get, jql: str, limit: int, place: Json) -> Items:
    """At most `limit` tickets that `jql` finds, with their comments, from `place` on."""
    pages = _cloud(get, jql, place) if place.get("api", "3") == "3" else _data_center(get, jql, place)
    seen = int(place.get("seen", 0))
    try:
        async for issues, where in pages:
            for issue in issues:
                if seen >= limit:
                    return
                seen += 1
                for item in _of(issue):
                    yield Item(item.event, item.payload, {**where, "seen": seen})
    except NotFound:
        if place:
            raise
        async for item in jira_items(get, jql, limit, {"api": "2"}):
            yield item


async def _cloud(get: Get, jql: str, place: Json) -> Any:
    token = place.get("token")
    while True:
        query = {"jql": jql, "maxResults": PAGE, "fields": FIELDS, **({"nextPageToken": token} if token else {})}
        page = await get("rest/api/3/search/jql", query)
        yield page["issues"], {"api": "3", "token": token}
        token = page.get("nextPageToken")
        if not token or page.get("isLast"):
            return


async def _data_center(get: Get, jql: str, place: Json) -> Any:
    start = int(place.get("start", 0))
    while True:
        page = await get("rest/api/2/search", {"jql": jql, "startAt": start, "maxResults": PAGE, "fields": FIELDS})
        yield page["issues"], {"api": "2", "start": start}
        start += len(page["issues"])
        if not page["issues"] or start >= page.get("total", 0):
            return


def _of(issue: Json) -> Iterator[Item]:
    fields = dict(issue["fields"])
    comments = (fields.pop("comment", None) or {}).get("comments") or []
    about = {"id": issue.get("id"), "self": issue.get("self"), "key": issue["key"], "fields": fields}
    yield Item("", {"webhookEvent": "jira:issue_updated", "issue": about})
    for comment in comments:
        yield Item("", {"webhookEvent": "comment_updated", "comment": comment, "issue": about})
