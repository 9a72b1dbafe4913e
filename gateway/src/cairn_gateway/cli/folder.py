"""Reading a folder of Markdown: every file is either a document or refused with a reason."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".md", ".markdown")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Document:
    """A file's text; `path` is relative to the folder, with slashes."""

    path: str
    markdown: str

    def size(self) -> int:
        """Bytes of it in a JSON request body, the comma included."""
        return len(json.dumps({"path": self.path, "markdown": self.markdown}).encode()) + 2


@dataclass(frozen=True)
class Refused:
    """A file that cannot be sent, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class BatchLimits:
    """Bounds of one import request; small enough that the progress bar moves."""

    documents: int = 50
    bytes: int = 4 * 1024 * 1024


@dataclass(frozen=True)
class Listing:
    """The Markdown files below `root`, in order of their paths, and what could not be listed."""

    root: Path
    files: tuple[str, ...]
    refused: tuple[Refused, ...]


def list_folder(root: Path) -> Listing:
    """Find `*.md` and `*.markdown` in every folder below `root`, hidden ones left out. A file is its own listing."""
    if not root.is_dir():
        return Listing(root.parent, (root.name,), ())
    refused: list[Refused] = []

    def unlisted(error: OSError) -> None:
        path = Path(error.filename).relative_to(root).as_posix()
        refused.append(Refused(f"{path}/", f"the folder cannot be listed: {_reason(error)}"))

    files: list[str] = []
    for folder, names, entries in os.walk(root, onerror=unlisted):
        names[:] = sorted(name for name in names if not name.startswith("."))
        relative = Path(folder).relative_to(root)
        files += [(relative / name).as_posix() for name in entries if _is_markdown(name)]
    return Listing(root, tuple(sorted(files)), tuple(refused))


def _is_markdown(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def read(root: Path, path: str, max_bytes: int) -> Document | Refused:
    """The document at `path` below `root`."""
    shown = printable(path)
    if shown != path:
        return Refused(shown, "the file name is not UTF-8")
    try:
        return Document(path, _text(_content(root, path, max_bytes)))
    except _Unusable as exc:
        return Refused(path, str(exc))
    except OSError as exc:
        return Refused(path, f"cannot be read: {_reason(exc)}")


class _Unusable(Exception):
    """Why a file cannot be a document."""


def _content(root: Path, path: str, max_bytes: int) -> bytes:
    file = Path(os.path.realpath(root / path))
    if not file.is_relative_to(os.path.realpath(root)):
        raise _Unusable("the link leads out of the folder")
    if not file.exists():
        raise _Unusable("the link leads nowhere")
    if not file.is_file():
        raise _Unusable("not a regular file")
    with file.open("rb") as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise _Unusable(f"over {max_bytes:,} bytes")
    return content


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        kind = "UTF-16" if content.startswith(_UTF16) else f"byte {exc.start} is wrong"
        raise _Unusable(f"not UTF-8 text ({kind})") from exc


def batches(documents: Iterable[Document], limits: BatchLimits = BatchLimits()) -> Iterator[list[Document]]:
    """Consecutive documents within the limits; one over the limit comes alone."""
    batch: list[Document] = []
    size = 0
    for document in documents:
        grown = size + document.size()
        if batch and (len(batch) == limits.documents or grown > limits.bytes):
            yield batch
            batch, grown = [], document.size()
        batch.append(document)
        size = grown
    if batch:
        yield batch


def printable(path: str) -> str:
    r"""`path` with the bytes of a name that is not UTF-8 written as `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
