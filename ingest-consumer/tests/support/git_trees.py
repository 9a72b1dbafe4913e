"""Git repositories made of plain dictionaries, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dulwich.index import commit_tree
from dulwich.objects import Blob, Commit, ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo


class GitTrees:
    """A bare repository whose branch is set to any tree."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.repository = Repo.init_bare(str(folder))
        self.url = f"file://{folder}"
        self.files: dict[str, bytes] = {}
        self.commits: list[tuple[str, dict[str, bytes]]] = []

    def change(self, files: Mapping[str, str | bytes | None], branch: str = "main", *, orphan: bool = False) -> str:
        """Commit `files` on top of the present tree (None removes one); the commit's id."""
        for path, content in files.items():
            if content is None:
                del self.files[path]
            else:
                self.files[path] = content.encode() if isinstance(content, str) else content
        return self.put(self.files, branch, orphan=orphan)

    def put(self, files: Mapping[str, bytes], branch: str = "main", *, orphan: bool = False) -> str:
        """Make `branch` a commit of exactly `files`."""
        store = self.repository.object_store
        entries = []
        for path, content in files.items():
            blob = Blob.from_string(content)
            store.add_object(blob)
            entries.append((path.encode(), blob.id, 0o100644))
        commit = Commit()
        commit.tree = commit_tree(store, entries)
        commit.parents = [ObjectID(self.commits[-1][0].encode())] if self.commits and not orphan else []
        commit.author = commit.committer = b"Test <test@example.org>"
        commit.author_time = commit.commit_time = 1_700_000_000 + len(self.commits)
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = b"change"
        store.add_object(commit)
        self.repository.refs[Ref(f"refs/heads/{branch}".encode())] = commit.id
        self.files = dict(files)
        self.commits.append((commit.id.decode(), dict(files)))
        return commit.id.decode()

    def point(self, commit: str, branch: str = "main") -> None:
        """A force push: the branch ends at an earlier commit."""
        self.repository.refs[Ref(f"refs/heads/{branch}".encode())] = ObjectID(commit.encode())
        self.files = dict(dict(self.commits)[commit])

    def blobs(self) -> dict[str, str]:
        """Blob ids by path, as git has them."""
        return {path: Blob.from_string(content).id.decode() for path, content in self.files.items()}
