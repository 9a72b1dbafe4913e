"""Readers of forges against servers that answer as their documentation says, and of git against git itself."""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest
from dulwich.index import commit_tree
from dulwich.objects import Blob, Commit
from dulwich.refs import Ref
from dulwich.repo import Repo
from dulwich.server import DictBackend
from dulwich.web import make_wsgi_chain

from cairn_shared.errors import Forbidden, TooLarge, TransientError, Unavailable
from cairn_shared.repositories.forge import Forge
from cairn_shared.repositories.git import RemoteGitReader, local_reader
from cairn_shared.repositories.gitea import GiteaReader
from cairn_shared.repositories.github import GitHubReader
from cairn_shared.repositories.gitlab import GitLabReader
from cairn_shared.repositories.hosts import Access, RepositorySettings
from cairn_shared.repositories.limits import CloneLimits
from cairn_shared.repositories.readers import open_reader
from cairn_shared.repositories.reading import BranchNotFound, Head, TreeFile

Answer = Callable[[httpx.Request], httpx.Response]
BASE = "https://api.example/v3"
COMMIT, BLOB = "c" * 40, "b" * 40


@asynccontextmanager
async def forge(answer: Answer, headers: dict[str, str] | None = None) -> AsyncIterator[Forge]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        yield Forge(client, BASE, headers or {"authorization": "Bearer t"}, now=lambda: 1000.0)


def entry(path: str, kind: str = "blob", mode: str = "100644", sha: str = BLOB) -> dict[str, Any]:
    return {"path": path, "mode": mode, "type": kind, "sha": sha, "size": 5}


class TestGitHub:
    async def test_head_tree_and_blob(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            path = request.url.path
            assert request.headers["authorization"] == "Bearer t"
            if path == "/v3/repos/a/b/git/ref/heads/feature/x":
                return httpx.Response(200, json={"ref": "r", "object": {"sha": COMMIT}}, headers={"etag": '"e"'})
            if path == f"/v3/repos/a/b/git/trees/{COMMIT}":
                assert request.url.params["recursive"] == "1"
                tree = [entry("a.md"), entry("d", "tree", "040000"), entry("l.md", mode="120000")]
                return httpx.Response(200, json={"tree": [*tree, entry("s", "commit", "160000")], "truncated": False})
            assert request.headers["accept"] == "application/vnd.github.raw+json"
            return httpx.Response(200, content=b"text")

        async with forge(answer) as opened:
            reader = GitHubReader(opened, "a/b")
            assert await reader.head("feature/x") == Head(COMMIT, '"e"')
            files = await reader.files(COMMIT)
            assert files == [TreeFile("a.md", BLOB, 5)]
            assert await reader.read(files[0], 10) == b"text"

    async def test_an_unchanged_branch_costs_a_304(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            assert request.headers["if-none-match"] == '"e"'
            return httpx.Response(304)

        async with forge(answer) as opened:
            head = await GitHubReader(opened, "a/b").head("main", Head(COMMIT, '"e"'))
            assert head == Head(COMMIT, '"e"', unchanged=True)

    async def test_a_tree_that_is_cut_is_read_folder_by_folder(self) -> None:
        folders = {
            COMMIT: [entry("a.md"), entry("d", "tree", "040000", "1" * 40)],
            "1" * 40: [entry("b.md"), entry("e", "tree", "040000", "2" * 40)],
            "2" * 40: [entry("c.md"), entry("link", mode="120000")],
        }

        def answer(request: httpx.Request) -> httpx.Response:
            if "recursive" in request.url.params:
                return httpx.Response(200, json={"tree": [entry("a.md")], "truncated": True})
            return httpx.Response(200, json={"tree": folders[request.url.path.rpartition("/")[2]], "truncated": False})

        async with forge(answer) as opened:
            files = await GitHubReader(opened, "a/b").files(COMMIT)
        assert [file.path for file in files] == ["a.md", "d/b.md", "d/e/c.md"]


class TestGitLab:
    async def test_head_pages_and_blob(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            path = request.url.raw_path.decode()
            root = "/v3/projects/g%2Fs%2Fp/repository"
            if path == f"{root}/branches/feature%2Fx":
                return httpx.Response(200, json={"name": "feature/x", "commit": {"id": COMMIT}})
            if path.startswith(f"{root}/blobs/"):
                return httpx.Response(200, content=b"text")
            assert path.startswith(f"{root}/tree")
            if "page_token" in request.url.params:
                return httpx.Response(200, json=[{"id": BLOB, "path": "b.md", "mode": "100755", "type": "blob"}])
            assert request.url.params["ref"] == COMMIT
            assert request.url.params["pagination"] == "keyset"
            following = f'<https://api.example{root}/tree?page_token=t>; rel="next"'
            tree = [{"id": BLOB, "path": "a.md", "mode": "100644", "type": "blob"}]
            tree += [{"id": BLOB, "path": "l", "mode": "120000", "type": "blob"}]
            return httpx.Response(200, json=tree, headers={"link": following})

        async with forge(answer) as opened:
            reader = GitLabReader(opened, "g/s/p")
            assert (await reader.head("feature/x")).commit == COMMIT
            files = await reader.files(COMMIT)
            assert [file.path for file in files] == ["a.md", "b.md"]
            assert await reader.read(files[0], 10) == b"text"

    async def test_a_next_page_elsewhere_is_not_asked_for(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            assert request.url.host == "api.example"
            return httpx.Response(200, json=[], headers={"link": '<https://evil.example/x>; rel="next"'})

        async with forge(answer) as opened:
            with pytest.raises(Forbidden):
                await GitLabReader(opened, "g/p").files(COMMIT)


class TestGitea:
    async def test_pages_are_read_until_the_count_is_reached(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            page = int(request.url.params["page"])
            tree = [entry(f"{page}-{number}.md") for number in range(2)]
            return httpx.Response(200, json={"tree": tree, "total_count": 6, "page": page, "truncated": page < 3})

        async with forge(answer) as opened:
            assert len(await GiteaReader(opened, "a/b").files(COMMIT)) == 6

    async def test_a_tree_that_ends_too_soon_is_not_taken_for_the_whole(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            tree = [entry("a.md")] if request.url.params["page"] == "1" else []
            return httpx.Response(200, json={"tree": tree, "total_count": 6, "truncated": True})

        async with forge(answer) as opened:
            with pytest.raises(TransientError, match="only a part"):
                await GiteaReader(opened, "a/b").files(COMMIT)

    async def test_a_blob_comes_as_base64_and_has_its_limit(self) -> None:
        def answer(_: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"content": base64.b64encode(b"x" * 50).decode(), "encoding": "base64"})

        async with forge(answer) as opened:
            assert await GiteaReader(opened, "a/b").read(TreeFile("a.md", BLOB), 50) == b"x" * 50
            with pytest.raises(TooLarge):
                await GiteaReader(opened, "a/b").read(TreeFile("a.md", BLOB), 49)


class TestForge:
    @pytest.mark.parametrize(
        ("response", "error", "wait"),
        [
            (httpx.Response(404), BranchNotFound, None),
            (httpx.Response(409), BranchNotFound, None),
            (httpx.Response(401), Forbidden, None),
            (httpx.Response(403), Forbidden, None),
            (
                httpx.Response(403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1090"}),
                TransientError,
                90,
            ),
            (httpx.Response(403, headers={"retry-after": "7"}), TransientError, 7),
            (httpx.Response(429, headers={"retry-after": "9"}), TransientError, 9),
            (httpx.Response(429), TransientError, 60),
            (httpx.Response(429, headers={"ratelimit-reset": "999999"}), TransientError, 3600),
            (httpx.Response(502), TransientError, None),
            (httpx.Response(200, content=b"<html>"), TransientError, None),
        ],
    )
    async def test_answers_are_told_apart(self, response: httpx.Response, error: type[Exception], wait: float) -> None:
        async with forge(lambda _: response) as opened:
            with pytest.raises(error) as caught:
                await opened.json("x")
        assert getattr(caught.value, "retry_after", None) == wait

    async def test_a_redirect_stays_inside_and_never_leaves(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            assert request.url.host == "api.example"
            place = {"/v3/moved": "/v3/here", "/v3/away": "https://evil.example/v3/here", "/v3/loop": "/v3/loop"}
            if request.url.path in place:
                return httpx.Response(301, headers={"location": place[request.url.path]})
            return httpx.Response(200, json={"ok": True})

        async with forge(answer) as opened:
            assert await opened.json("moved") == {"ok": True}
            with pytest.raises(Forbidden, match="redirects to another"):
                await opened.json("away")
            with pytest.raises(TransientError, match="without end"):
                await opened.json("loop")

    async def test_a_body_without_end_is_left(self) -> None:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 1000

        async with forge(lambda _: httpx.Response(200, content=endless())) as opened:
            with pytest.raises(TooLarge):
                await opened.get("x", limit=10_000)

    async def test_a_host_that_is_away_is_unavailable(self) -> None:
        def answer(_: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("no")

        async with forge(answer) as opened:
            with pytest.raises(Unavailable):
                await opened.json("x")


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Repo]:
    """A repository with three files and a symbolic link."""
    folder = tmp_path / "r.git"
    folder.mkdir()
    repository = Repo.init_bare(str(folder))
    entries = []
    for path, content, mode in (
        ("a.md", b"A", 0o100644),
        ("d/b.md", b"B" * 100, 0o100755),
        ("d/ü.md", b"U", 0o100644),
        ("link.md", b"a.md", 0o120000),
    ):
        blob = Blob.from_string(content)
        repository.object_store.add_object(blob)
        entries.append((path.encode(), blob.id, mode))
    commit = Commit()
    commit.tree = commit_tree(repository.object_store, entries)
    commit.author = commit.committer = b"T <t@example.org>"
    commit.author_time = commit.commit_time = 1
    commit.author_timezone = commit.commit_timezone = 0
    commit.message = b"m"
    repository.object_store.add_object(commit)
    repository.refs[Ref(b"refs/heads/main")] = commit.id
    yield repository
    repository.close()


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(bare: Repo) -> Iterator[str]:
    """The repository over smart HTTP; its address."""
    backend = DictBackend(cast("dict[str, Any]", {"/ops/r.git": bare}))
    server = make_server("127.0.0.1", 0, make_wsgi_chain(backend), handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/ops/r.git"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("remote", [False, True])
async def test_git_is_read_from_a_folder_and_over_http(bare: Repo, served: str, remote: bool) -> None:
    access = Access("git", served if remote else f"file://{bare.path}", str(bare.path), None)
    async with open_reader(access, RepositorySettings(repo_timeout=5)) as reader:
        head = await reader.head("main")
        assert head.commit == bare.refs[Ref(b"refs/heads/main")].decode()
        files = {file.path: file for file in await reader.files(head.commit)}
        assert sorted(files) == ["a.md", "d/b.md", "d/ü.md"]
        assert await reader.read(files["d/b.md"], 100) == b"B" * 100
        with pytest.raises(TooLarge):
            await reader.read(files["d/b.md"], 99)
        with pytest.raises(BranchNotFound):
            await reader.head("other")


async def test_a_clone_that_is_too_large_is_left_and_its_folder_goes(
    bare: Repo, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blob = Blob.from_string(os.urandom(3_000_000))
    bare.object_store.add_object(blob)
    commit = bare[bare.refs[Ref(b"refs/heads/main")]].copy()
    assert isinstance(commit, Commit)
    commit.tree = commit_tree(bare.object_store, [(b"big.bin", blob.id, 0o100644)])
    bare.object_store.add_object(commit)
    bare.refs[Ref(b"refs/heads/main")] = commit.id
    for mebibytes in (1, 5):
        reader = RemoteGitReader(served, None, 5, CloneLimits(mebibytes=mebibytes))
        head = await reader.head("main")
        if mebibytes == 1:
            with pytest.raises(TooLarge, match=r"over 1 MiB \(REPO_CLONE_MIB\)"):
                await reader.files(head.commit)
        else:
            assert [file.path for file in await reader.files(head.commit)] == ["big.bin"]
        await reader.close()
        assert list(tmp_path.glob("cairn-git-*")) == []


async def test_a_server_that_drips_is_left_in_time() -> None:
    class Dripping(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/x-git-upload-pack-advertisement")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(b"001e# service=git-upload-pack\n0000")
                for _ in range(200):
                    self.wfile.write(b"0032" + b"a" * 40 + b" r/h\n")
                    time.sleep(0.05)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        reader = RemoteGitReader(f"http://127.0.0.1:{server.server_port}/r.git", None, 5, CloneLimits(seconds=0.5))
        begun = time.monotonic()
        with pytest.raises(TransientError, match=r"over 0.5 s \(REPO_CLONE_TIMEOUT\)"):
            await reader.head("main")
        assert time.monotonic() - begun < 4
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_what_is_no_repository_is_said(tmp_path: Path, served: str) -> None:
    with pytest.raises(BranchNotFound):
        await local_reader(str(tmp_path)).head("main")
    with pytest.raises(BranchNotFound):
        await RemoteGitReader(served.replace("r.git", "other.git"), None, 5).head("main")
    with pytest.raises(Unavailable):
        await RemoteGitReader("http://127.0.0.1:1/x", None, 1).head("main")


async def test_git_follows_no_redirect() -> None:
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("location", f"http://127.0.0.1:{server.server_port}/elsewhere{self.path}")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        with pytest.raises(Forbidden, match="redirects"):
            await RemoteGitReader(f"http://127.0.0.1:{server.server_port}/r.git", None, 5).head("main")
        assert len(asked) == 1
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_a_clone_that_unpacks_to_too_much_is_left(bare: Repo, served: str) -> None:
    blob = Blob.from_string(bytes(3_000_000))  # three kilobytes on the wire
    bare.object_store.add_object(blob)
    commit = bare[bare.refs[Ref(b"refs/heads/main")]].copy()
    assert isinstance(commit, Commit)
    commit.tree = commit_tree(bare.object_store, [(b"zeros.bin", blob.id, 0o100644)])
    bare.object_store.add_object(commit)
    bare.refs[Ref(b"refs/heads/main")] = commit.id
    access = Access("git", served, "/ops/r.git", None)
    for most in (2, 4):
        async with open_reader(access, RepositorySettings(repo_timeout=5, repo_inflated_mib=most)) as reader:
            head = await reader.head("main")
            if most == 2:
                with pytest.raises(TooLarge, match=r"over 2 MiB \(REPO_INFLATED_MIB\)"):
                    await reader.files(head.commit)
            else:
                assert [file.path for file in await reader.files(head.commit)] == ["zeros.bin"]
