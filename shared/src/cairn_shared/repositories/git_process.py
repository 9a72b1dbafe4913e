"""Git in a process of its own, with a limit of memory: what a host sends can end that process and no other.

`ProcessReader` starts the process (`git_worker`) and asks it. The process gets an environment without any setting of
Cairn. Over its standard streams go one line of JSON a question, and one line of JSON with `size` bytes behind it an
answer.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from dataclasses import asdict

import orjson
from pydantic import SecretStr

from cairn_shared.errors import CairnError, Forbidden, InvalidInput, TooLarge, TransientError, Unavailable
from cairn_shared.repositories.limits import ProcessLimits
from cairn_shared.repositories.reading import BranchNotFound, Head, TreeFile

PATIENCE = 60.0
"""Seconds beyond those of a clone until the process counts as stuck."""

_LINE = 64 * 1024
_ERRORS: dict[str, type[CairnError]] = {
    kind.__name__: kind for kind in (BranchNotFound, Forbidden, InvalidInput, TooLarge, TransientError)
}


class ProcessReader:
    """As `reading.RepositoryReader`. `place` is an HTTP address, or the path of a folder."""

    def __init__(self, place: str, token: SecretStr | None, limits: ProcessLimits = ProcessLimits()) -> None:
        self._place = place
        self._token = token
        self._limits = limits
        self._process: asyncio.subprocess.Process | None = None
        self._folder: str | None = None
        self._turn = asyncio.Lock()

    async def head(self, branch: str, known: Head | None = None) -> Head:
        commit = (await self._ask("head", branch)).decode()
        return Head(commit, None, unchanged=known is not None and known.commit == commit)

    async def files(self, commit: str) -> list[TreeFile]:
        answer = await self._ask("files", commit)
        return await asyncio.to_thread(lambda: [TreeFile(path, blob) for path, blob in orjson.loads(answer)])

    async def read(self, file: TreeFile, limit: int) -> bytes:
        return await self._ask("read", file.path, file.blob, limit)

    async def close(self) -> None:
        """End the process and remove what it fetched."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.communicate()
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _ask(self, *question: str | int) -> bytes:
        async with self._turn:
            try:
                async with asyncio.timeout(self._limits.clone.seconds + self._limits.timeout + PATIENCE):
                    return await self._answer(question)
            except (EOFError, ConnectionError, TimeoutError) as exc:
                # Memory that runs out where nobody can catch it ends the process as well.
                await self.close()
                raise Unavailable("repository", "the process that reads the repository ended") from exc
            except asyncio.CancelledError:
                await self.close()  # an answer that nobody waits for would be taken for the next one's
                raise

    async def _answer(self, question: tuple[str | int, ...]) -> bytes:
        process = self._process or await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(orjson.dumps(question) + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        told = orjson.loads(line)
        if "error" not in told:
            return await process.stdout.readexactly(told["size"])
        kind = _ERRORS.get(told["error"], Unavailable)
        if kind is Unavailable:
            raise Unavailable("repository", told["detail"])
        if kind is TransientError:
            raise TransientError(told["detail"], retry_after=told["retry_after"])
        raise kind(told["detail"])

    async def _start(self) -> asyncio.subprocess.Process:
        self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="cairn-git-")
        passed = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cairn_shared.repositories.git_worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=passed | {"TMPDIR": self._folder, "HOME": self._folder, "MALLOC_ARENA_MAX": "1"},
            start_new_session=True,
            limit=_LINE,
        )
        self._process = process
        assert process.stdin is not None
        token = self._token.get_secret_value() if self._token else None
        job = {"place": self._place, "token": token, "limits": asdict(self._limits)}
        process.stdin.write(orjson.dumps(job) + b"\n")
        return process
