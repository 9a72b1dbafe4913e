"""The commits of a repository on this machine, newest first, as pushes of the forge that it came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cairn_gateway.cli.backfill.items import Item, Json
from cairn_gateway.cli.exits import Rejected
from cairn_shared.repositories.urls import canonical

if TYPE_CHECKING:
    from dulwich.objects import Commit
    from dulwich.repo import Repo
    from dulwich.walk import WalkEntry


@dataclass(frozen=True)
class Origin:
    """Where a clone came from: it decides which documents its commits are."""

    source: str
    full_name: str
    web_url: str | None


def origin_of(url: str | None, folder: Path) -> Origin:
    """The origin at `url` (the clone's remote, or what the user says); without one, a repository of this machine."""
    if not url or url.startswith(("/", "file:", ".")):
        return Origin("github", f"local/{folder.resolve().name}", None)
    host, _, name = canonical(url).partition("/")
    if not name:
        raise Rejected(f"{url} names no repository")
    scheme = urlsplit(url).scheme
    web = f"{scheme if scheme in {'http', 'https'} else 'https'}://{host}/{name}"
    return Origin("gitlab" if "gitlab" in host else "github", name, web)


def git_items(folder: Path, origin: Origin, limit: int, place: Json) -> Iterator[Item]:
    """At most `limit` commits that lead to HEAD, from `place` on.

    Raises:
        Rejected: there is no repository, or no commit in it.
    """
    from dulwich.errors import NotGitRepository
    from dulwich.objects import ObjectID
    from dulwich.repo import Repo

    try:
        repository = Repo.discover(str(folder))
    except NotGitRepository as exc:
        raise Rejected(f"there is no git repository at {folder}") from exc
    with repository:
        try:
            head = ObjectID(place["head"].encode()) if place.get("head") else repository.head()
            walker = repository.get_walker(include=[head], max_entries=limit)
            for number, entry in enumerate(walker, 1):
                if number > int(place.get("done", 0)):
                    where = {"head": head.decode(), "done": number}
                    yield Item("push", _payload(repository, entry, origin), where)
        except KeyError as exc:
            raise Rejected("the repository has no commit, or lacks a part of its history (a shallow clone?)") from exc


def remote_url(folder: Path) -> str | None:
    """The address of the remote `origin`, if there is one."""
    from dulwich.errors import NotGitRepository
    from dulwich.repo import Repo

    try:
        with Repo.discover(str(folder)) as repository:
            return repository.get_config().get((b"remote", b"origin"), b"url").decode()
    except (NotGitRepository, KeyError):
        return None


def _payload(repository: Repo, entry: WalkEntry, origin: Origin) -> Json:
    commit = _commit(repository, entry, origin)
    if origin.source == "gitlab":
        return {
            "object_kind": "push",
            "ref": "refs/backfill",
            "project": {"path_with_namespace": origin.full_name, "web_url": origin.web_url},
            "commits": [commit],
            "total_commits_count": 1,
        }
    return {
        "ref": "refs/backfill",
        "commits": [commit],
        "repository": {"full_name": origin.full_name, "html_url": origin.web_url},
    }


def _commit(repository: Repo, entry: WalkEntry, origin: Origin) -> Json:
    commit = entry.commit
    sha = commit.id.decode()
    name, _, email = commit.author.decode("utf-8", "replace").partition(" <")
    dash = "/-" if origin.source == "gitlab" else ""
    return {
        "id": sha,
        "message": commit.message.decode("utf-8", "replace"),
        "timestamp": _time(commit).isoformat(),
        "url": f"{origin.web_url}{dash}/commit/{sha}" if origin.web_url else None,
        "author": {"name": name, "email": email.rstrip(">")},
        **_paths(repository, commit),
    }


def _time(commit: Commit) -> datetime:
    zone = timezone(timedelta(seconds=commit.commit_timezone)) if abs(commit.commit_timezone) < 86_400 else UTC
    return datetime.fromtimestamp(commit.commit_time, zone)


def _paths(repository: Repo, commit: Commit) -> Json:
    """What differs from the first parent, as forges list it: a merge commit brings what it merges."""
    from dulwich.diff_tree import tree_changes

    store = repository.object_store
    before = getattr(store[commit.parents[0]], "tree", None) if commit.parents else None
    paths: dict[str, list[str]] = {"added": [], "modified": [], "removed": []}
    for change in tree_changes(store, before, commit.tree):
        old = change.old.path.decode("utf-8", "replace") if change.old and change.old.path else None
        new = change.new.path.decode("utf-8", "replace") if change.new and change.new.path else None
        if old is None and new is not None:
            paths["added"].append(new)
        elif new is None and old is not None:
            paths["removed"].append(old)
        elif new is not None:
            paths["modified"].append(new)
    return paths
