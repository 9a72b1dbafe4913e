"""The history of a GitHub repository: commits with their paths, issues, pull requests, comments, newest first.

Pages shift only towards their end while new things are made, so going on at a page repeats some and misses none;
what is sent twice is the same event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote

from cairn_gateway.cli.backfill.items import Item, Items, Json

Get = Callable[..., Awaitable[Any]]
"""`get(path, params)`: the JSON there, patient with rate limits."""

PAGE = 100
PHASES = ("commits", "issues", "pulls", "comments")


async def github_items(get: Get, name: str, limit: int, place: Json) -> Items:
    """At most `limit` things of each kind of `name` (OWNER/REPO), from `place` on."""
    repository = await get(f"repos/{quote(name)}", {})
    for phase in PHASES[PHASES.index(place.get("phase", "commits")) :]:
        page = int(place.get("page", 1)) if phase == place.get("phase") else 1
        start = place.get("sha") if phase == place.get("phase") else None
        if phase == "commits":
            start = (
                start or (await get(f"repos/{quote(name)}/commits/{quote(repository['default_branch'])}", {}))["sha"]
            )
        async for item, where in _phase(get, name, phase, repository, limit=limit, page=page, start=start):
            yield Item(item.event, item.payload, {"phase": phase, **where})


async def _phase(
    get: Get, name: str, phase: str, repository: Json, *, limit: int, page: int, start: str | None
) -> AsyncIterator[tuple[Item, Json]]:
    root = f"repos/{quote(name)}"
    paths = {"commits": "commits", "issues": "issues", "pulls": "pulls", "comments": "issues/comments"}
    while (page - 1) * PAGE < limit:
        query: Json = {"per_page": PAGE, "page": page}
        if phase == "commits":
            query["sha"] = start
        else:
            query |= {"state": "all", "sort": "created", "direction": "desc"}
        found = await get(f"{root}/{paths[phase]}", query)
        for entry in found[: limit - (page - 1) * PAGE]:
            item = await _item(get, root, phase, entry, repository)
            if item is not None:
                yield item, {"page": page, **({"sha": start} if start else {})}
        if len(found) < PAGE:
            return
        page += 1


async def _item(get: Get, root: str, phase: str, entry: Json, repository: Json) -> Item | None:
    match phase:
        case "commits":
            detail = await get(f"{root}/commits/{entry['sha']}", {})
            return Item("push", {"ref": "refs/backfill", "commits": [commit(detail)], "repository": repository})
        case "issues":
            if "pull_request" in entry:
                return None  # it comes with the pull requests, with its branches
            return Item("issues", {"action": "backfilled", "issue": entry, "repository": repository})
        case "pulls":
            return Item("pull_request", {"action": "backfilled", "pull_request": entry, "repository": repository})
        case _:
            issue = await get(f"{root}/issues/{entry['issue_url'].rpartition('/')[2]}", {})
            return Item(
                "issue_comment", {"action": "backfilled", "comment": entry, "issue": issue, "repository": repository}
            )


def commit(detail: Json) -> Json:
    """A commit of the API as a push lists it."""
    paths: dict[str, list[str]] = {"added": [], "modified": [], "removed": []}
    for file in detail.get("files") or []:
        if file["status"] in {"added", "copied"}:
            paths["added"].append(file["filename"])
        elif file["status"] == "removed":
            paths["removed"].append(file["filename"])
        elif file["status"] == "renamed":
            paths["added"].append(file["filename"])
            paths["removed"].append(file.get("previous_filename", file["filename"]))
        else:
            paths["modified"].append(file["filename"])
    told = detail["commit"]
    return {
        "id": detail["sha"],
        "message": told["message"],
        "timestamp": told["committer"]["date"],
        "url": detail.get("html_url"),
        "author": {
            "name": told["author"]["name"],
            "email": told["author"].get("email"),
            "username": (detail.get("author") or {}).get("login"),
        },
        **paths,
    }
