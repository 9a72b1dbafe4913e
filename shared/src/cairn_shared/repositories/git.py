"""Plain git by dulwich: any host over HTTP, and repositories on this machine.

Only the process of `git_worker` runs this: what a host sends may be made to fill memory. dulwich blocks, so it runs in
threads; its files are not made for several at once, so one at a time.
"""

from __future__ import annotations

import asyncio
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dulwich.client import HttpGitClient, HTTPUnauthorized
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository, ObjectMissing
from dulwich.object_store import ObjectStoreGraphWalker
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo
from pydantic import SecretStr
from urllib3 import PoolManager

from cairn_shared.errors import Forbidden, TooLarge, TransientError, Unavailable
from cairn_shared.repositories.limits import MEBIBYTE, CloneLimits
from cairn_shared.repositories.packs import check_pack
from cairn_shared.repositories.reading import BranchNotFound, Head, TreeFile

T = TypeVar("T")
MAX_PATH = 4096
"""Characters of a path, as Linux has them (PATH_MAX)."""


class _Spent:
    """What one operation has cost so far."""

    def __init__(self, limits: CloneLimits) -> None:
        self._limits = limits
        self._bytes = limits.mebibytes * MEBIBYTE
        self._deadline = time.monotonic() + limits.seconds

    def add(self, count: int) -> None:
        self._bytes -= count
        if self._bytes < 0:
            raise TooLarge(f"the clone is over {self._limits.mebibytes} MiB (REPO_CLONE_MIB)", field="size")
        if time.monotonic() > self._deadline:
            # Trying again at once would take as long: the next sync does.
            detail = f"the clone took over {self._limits.seconds:g} s (REPO_CLONE_TIMEOUT)"
            raise TransientError(detail, retry_after=60.0)


class _BoundedClient(HttpGitClient):
    """Counts what it reads, of every answer: a list of references can be as endless as a pack."""

    spent: _Spent

    def _http_request(self, *args: Any, **kwargs: Any) -> Any:
        response, read = super()._http_request(*args, **kwargs)

        def bounded(size: int) -> bytes:
            data = bytes(read(size))
            self.spent.add(len(data))
            return data

        return response, bounded


class GitReader:
    """As `reading.RepositoryReader`, over a repository that is open on this machine."""

    def __init__(self, open_repository: Callable[[], Repo], limits: CloneLimits = CloneLimits()) -> None:
        self._open = open_repository
        self._limits = limits
        self._repository: Repo | None = None
        self._turn = asyncio.Lock()

    async def head(self, branch: str, known: Head | None = None) -> Head:
        del known
        return await self._run(lambda: self._head(branch))

    async def files(self, commit: str) -> list[TreeFile]:
        return await self._run(lambda: self._files(commit))

    async def read(self, file: TreeFile, limit: int) -> bytes:
        return await self._run(lambda: self._read(file, limit))

    async def _run(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(lambda: _told(work))

    async def close(self) -> None:
        """Close the repository's files."""
        if self._repository is not None:
            await asyncio.to_thread(self._repository.close)

    def _get(self) -> Repo:
        if self._repository is None:
            self._repository = self._open()
        return self._repository

    def _head(self, branch: str) -> Head:
        try:
            return Head(self._get().refs[Ref(f"refs/heads/{branch}".encode())].decode())
        except KeyError as exc:
            raise BranchNotFound(f"there is no branch {branch}") from exc

    def _files(self, commit: str) -> list[TreeFile]:
        store = self._get().object_store
        found = store[ObjectID(commit.encode())]
        if not isinstance(found, Commit):
            raise BranchNotFound(f"{commit} is no commit")
        return list(self._walk(found.tree))

    def _walk(self, root: ObjectID) -> Iterator[TreeFile]:
        """The regular files, counting every entry: a few trees that name each other many times unfold without end."""
        store, entries = self._get().object_store, 0
        waiting: list[tuple[str, ObjectID]] = [("", root)]
        while waiting:
            folder, identity = waiting.pop()
            tree = store[identity]
            assert isinstance(tree, Tree)
            for name, mode, sha in tree.iteritems():
                entries += 1
                path = folder + name.decode("utf-8", "replace")
                if entries > self._limits.objects or len(path) > MAX_PATH:
                    what = f"over {self._limits.objects} entries (REPO_CLONE_OBJECTS) or a path over {MAX_PATH} letters"
                    raise TooLarge(f"the tree has {what}", field="size")
                if stat.S_ISDIR(mode):
                    waiting.append((f"{path}/", sha))
                elif stat.S_ISREG(mode):
                    yield TreeFile(path, sha.decode())

    def _read(self, file: TreeFile, limit: int) -> bytes:
        blob = self._get().object_store[ObjectID(file.blob.encode())]
        assert isinstance(blob, Blob)
        if blob.raw_length() > limit:
            raise TooLarge(f"over {limit} bytes", field="size")
        return bytes(blob.data)


def local_reader(path: str, limits: CloneLimits = CloneLimits()) -> GitReader:
    """A reader of the repository in the folder `path`, bare or not."""
    return GitReader(lambda: Repo(path), limits)


class RemoteGitReader:
    """A reader of a repository at an HTTP address: one branch, without history, in a folder that goes with it."""

    def __init__(self, url: str, token: SecretStr | None, timeout: float, limits: CloneLimits = CloneLimits()) -> None:
        parts = urlsplit(url)
        self._limits = limits
        self._path = parts.path
        # No retries and no redirects: a redirect comes back as an answer that is not 200, and nobody follows it.
        pool = PoolManager(retries=False)
        self._client: Any = _BoundedClient(
            f"{parts.scheme}://{parts.netloc}",
            pool_manager=pool,
            timeout=timeout,
            quiet=True,
            username="git" if token else None,
            password=token.get_secret_value() if token else None,
        )
        self._folder: str | None = None
        self._reader: GitReader | None = None

    async def head(self, branch: str, known: Head | None = None) -> Head:
        commit = await asyncio.to_thread(lambda: _told(lambda: self._remote_head(branch)))
        return Head(commit, None, unchanged=known is not None and known.commit == commit)

    async def files(self, commit: str) -> list[TreeFile]:
        await self.close()
        self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="cairn-git-")
        folder = self._folder
        await asyncio.to_thread(lambda: _told(lambda: self._fetch(folder, commit)))
        self._reader = local_reader(folder, self._limits)
        return await self._reader.files(commit)

    async def read(self, file: TreeFile, limit: int) -> bytes:
        assert self._reader is not None, "the tree is asked for first"
        return await self._reader.read(file, limit)

    async def close(self) -> None:
        """Remove what was fetched."""
        if self._reader is not None:
            await self._reader.close()
            self._reader = None
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            self._folder = None

    def _remote_head(self, branch: str) -> str:
        self._client.spent = _Spent(self._limits)
        refs = self._client.get_refs(self._path.encode()).refs
        commit = refs.get(f"refs/heads/{branch}".encode())
        if commit is None:
            raise BranchNotFound(f"there is no branch {branch}")
        return bytes(commit).decode()

    def _fetch(self, folder: str, commit: str) -> None:
        self._client.spent = _Spent(self._limits)
        with tempfile.TemporaryFile(dir=folder) as pack:
            found = self._client.fetch_pack(
                self._path.encode(),
                lambda *_a, **_k: [commit.encode()],
                ObjectStoreGraphWalker([], lambda _: []),
                pack.write,
                depth=1,
            )
            pack.seek(0)
            check_pack(pack, self._limits, id_bytes=32 if found.object_format == "sha256" else 20)
            pack.seek(0)
            with closing(Repo.init_bare(folder, object_format=found.object_format)) as repository:
                file, keep, abort = repository.object_store.add_pack()
                try:
                    shutil.copyfileobj(pack, file)
                except BaseException:
                    abort()
                    raise
                keep()


def _told(work: Callable[[], T]) -> T:
    """Run `work`, with dulwich's errors as ours."""
    try:
        return work()
    except NotGitRepository as exc:
        raise BranchNotFound("there is no git repository at this address") from exc
    except HTTPUnauthorized as exc:
        raise Forbidden("the repository's host asks for credentials") from exc
    except (GitProtocolError, HangupException) as exc:
        if "unexpected http resp 3" in str(exc):
            raise Forbidden("the repository's host redirects; declare the address that it redirects to") from exc
        raise Unavailable("repository", "the repository's host cannot be read") from exc
    except (ObjectMissing, KeyError) as exc:
        raise TransientError("the repository changed while it was read") from exc
    except OSError as exc:
        raise Unavailable("repository", f"the repository cannot be read ({type(exc).__name__})") from exc
