"""A commit is the same document, to the byte, whether a webhook brings it or the forge's API is asked for it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from cairn_gateway.sources import github, gitlab
from cairn_gateway.sources.model import Delivery, RunbookRepositories
from cairn_shared.documents.commits import Home, commit_event
from cairn_shared.repositories.commits import CommitReader, GiteaCommits, GitHubCommits, GitLabCommits
from cairn_shared.repositories.forge import Forge

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
SHA, BASE = "4f7a9d0c2b1e8f6a5d3c7b9e0f1a2b3c4d5e6f70", "1" * 40
MESSAGE = "Raise the pool size 🚑\n\nRefs #33173, PROJ-123"
PATHS: dict[str, list[str]] = {"added": ["new.md"], "modified": ["a.go", "ü.md"], "removed": ["gone.md", "old.md"]}
FILES = [
    {"filename": "a.go", "status": "modified"},
    {"filename": "gone.md", "status": "removed"},
    {"filename": "new.md", "status": "renamed", "previous_filename": "old.md"},
    {"filename": "ü.md", "status": "modified"},
]


def _git_commit(url: str) -> dict[str, Any]:
    """As GitHub's and Gitea's APIs tell it: the committer's date is not the author's."""
    person = {"name": "Mira Øster", "email": "m@example.org"}
    return {
        "sha": SHA,
        "html_url": url,
        "author": {"login": "mira"},
        "commit": {
            "message": MESSAGE,
            "author": {**person, "date": "2026-03-01T10:00:00Z"},
            "committer": {**person, "name": "GitHub", "date": "2026-03-02T09:13:59Z"},
        },
    }


def _webhook(at: str, url: str) -> dict[str, Any]:
    author = {"name": "Mira Øster", "email": "m@example.org", "username": "mira"}
    return {"id": SHA, "message": MESSAGE, "timestamp": at, "url": url, "author": author, **PATHS}


def _github() -> tuple[dict[str, Any], dict[str, Any]]:
    url = f"https://github.com/Acme/payments/commit/{SHA}"
    pushed = {"commits": [_webhook("2026-03-02T10:13:59+01:00", url)], "repository": {"full_name": "Acme/payments"}}
    told = _git_commit(url)
    return pushed, {f"compare/{BASE}...{SHA}": {"commits": [told]}, f"commits/{SHA}": {**told, "files": FILES}}


def _gitea() -> tuple[dict[str, Any], dict[str, Any]]:
    url = f"http://forge:3000/Acme/payments/commit/{SHA}"
    web = {"full_name": "Acme/payments", "html_url": "http://forge:3000/Acme/payments"}
    pushed = {"commits": [_webhook("2026-03-01T11:00:00+01:00", url)], "repository": web}
    files = [{"filename": name, "status": status} for status, names in PATHS.items() for name in names]
    return pushed, {"commits": [{**_git_commit(url), "files": files}]}


def _gitlab() -> tuple[dict[str, Any], dict[str, Any]]:
    url = f"https://gitlab.com/Acme/payments/-/commit/{SHA}"
    commit = {**_webhook("2026-03-02T10:13:59+01:00", url), "removed": ["gone.md"]}
    project = {"path_with_namespace": "Acme/payments", "web_url": "https://gitlab.com/Acme/payments"}
    pushed = {"object_kind": "push", "commits": [commit], "project": project, "total_commits_count": 1}
    told = {"id": SHA, "message": MESSAGE, "committed_date": "2026-03-02T09:13:59.000+00:00"}
    told |= {"authored_date": "2026-03-01T10:00:00.000Z", "author_name": "Mira Øster", "web_url": url}
    changes = [
        {"old_path": "a.go", "new_path": "a.go"},
        {"old_path": "gone.md", "new_path": "gone.md", "deleted_file": True},
        {"old_path": "old.md", "new_path": "new.md", "renamed_file": True},
        {"old_path": "ü.md", "new_path": "ü.md"},
    ]
    return pushed, {"repository/commits": [told], f"repository/commits/{SHA}/diff": changes}


@pytest.mark.parametrize("forge", ["github", "gitea", "gitlab"])
async def test_the_same_commit_is_the_same_event(forge: str) -> None:
    pushed, told = {"github": _github, "gitea": _gitea, "gitlab": _gitlab}[forge]()
    headers = {"x-github-event": "push", "x-gitlab-event": "Push Hook"}
    payload = {"ref": "refs/heads/main", "before": BASE, "after": SHA, **pushed}
    delivery = Delivery(headers, json.dumps(payload).encode(), NOW)
    translate = gitlab.translate if forge == "gitlab" else github.translate
    webhooks = translate(delivery, RunbookRepositories()).events[0]

    def answer(request: httpx.Request) -> httpx.Response:
        for path, body in sorted(told.items(), reverse=True):
            if request.url.path.endswith(f"/{path}"):
                return httpx.Response(200, json=body)
        return httpx.Response(404)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        readers: dict[str, type] = {"github": GitHubCommits, "gitea": GiteaCommits, "gitlab": GitLabCommits}
        reader: CommitReader = readers[forge](Forge(client, "https://api.example", {}), "Acme/payments")
        page = await reader.page(BASE, SHA, 1)
        assert (len(page.commits), page.last) == (1, True)
        asked = await reader.complete(page.commits[0])
    home = Home(webhooks.source, webhooks.subject.rpartition("@")[0], "payments")
    assert commit_event(asked, home, NOW).encode() == webhooks.encode()
