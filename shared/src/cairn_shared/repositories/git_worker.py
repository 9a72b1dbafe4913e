"""The process in which git is read (`git_process` starts it): `python -m cairn_shared.repositories.git_worker`."""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any

import orjson
from pydantic import SecretStr

from cairn_shared.errors import CairnError
from cairn_shared.repositories.git import GitReader, RemoteGitReader, local_reader
from cairn_shared.repositories.limits import MEBIBYTE, CloneLimits, ProcessLimits
from cairn_shared.repositories.reading import TreeFile


def main() -> None:
    """Serve the questions on standard input until it ends."""
    job = orjson.loads(sys.stdin.buffer.readline())
    limits = ProcessLimits(**job["limits"] | {"clone": CloneLimits(**job["limits"]["clone"])})
    memory, disk = limits.memory * MEBIBYTE, 2 * max(limits.clone.mebibytes, 64) * MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (disk, disk))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asyncio.run(_serve(_reader(job["place"], job["token"], limits), limits))


def _reader(place: str, token: str | None, limits: ProcessLimits) -> GitReader | RemoteGitReader:
    if place.startswith("/"):
        return local_reader(place, limits.clone)
    return RemoteGitReader(place, SecretStr(token) if token else None, limits.timeout, limits.clone)


async def _serve(reader: GitReader | RemoteGitReader, limits: ProcessLimits) -> None:
    while question := await asyncio.to_thread(sys.stdin.buffer.readline):
        try:
            content = await _told(reader, *orjson.loads(question))
        except MemoryError:
            detail = f"reading it takes over {limits.memory} MiB of memory (REPO_MEMORY_MIB)"
            _put({"error": "TooLarge", "detail": detail}, b"")
        except CairnError as exc:
            error = {
                "error": type(exc).__name__,
                "detail": exc.detail,
                "retry_after": getattr(exc, "retry_after", None),
            }
            _put(error, b"")
        except Exception:  # noqa: BLE001 - whatever broken objects make dulwich raise is this repository's failure
            _put({"error": "Unavailable", "detail": "the repository cannot be read: its objects are broken"}, b"")
        else:
            _put({"size": len(content)}, content)


async def _told(reader: GitReader | RemoteGitReader, question: str, *about: Any) -> bytes:
    match question:
        case "head":
            return (await reader.head(about[0])).commit.encode()
        case "files":
            return orjson.dumps([(file.path, file.blob) for file in await reader.files(about[0])])
        case _:
            return await reader.read(TreeFile(about[0], about[1]), about[2])


def _put(head: dict[str, Any], content: bytes) -> None:
    out = sys.stdout.buffer
    out.write(orjson.dumps(head) + b"\n" + content)
    out.flush()


if __name__ == "__main__":
    main()
