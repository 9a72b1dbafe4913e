"""Git repositories made of plain dictionaries, for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, make_server

from dulwich.index import commit_tree
from dulwich.objects import Blob, Commit, ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo
from dulwich.server import DictBackend
from dulwich.web import make_wsgi_chain


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

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address of this repository over smart HTTP."""

        class Quiet(WSGIRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

        backend = DictBackend(cast("dict[str, Any]", {"/ops/r.git": self.repository}))
        server = make_server("127.0.0.1", 0, make_wsgi_chain(backend), handler_class=Quiet)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/ops/r.git"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def blobs(self) -> dict[str, str]:
        """Blob ids by path, as git has them."""
        return {path: Blob.from_string(content).id.decode() for path, content in self.files.items()}
