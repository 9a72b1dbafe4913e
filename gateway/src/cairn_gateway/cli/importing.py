"""Sending documents to `POST /runbooks/import` in batches, and adding up what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cairn_gateway.cli.client import Cairn, as_object
from cairn_gateway.cli.exits import Rejected, Unreachable
from cairn_gateway.cli.folder import Document, Refused, batches, list_folder, read

STATUSES = ("created", "changed", "unchanged", "rejected")
PATIENCE = 120.0
BATCH_TIMEOUT = 120.0


@dataclass(frozen=True)
class FileResult:
    """What became of one file; `reason` is set when it was rejected, `warnings` are about what was left out of it."""

    path: str
    status: str
    id: str | None = None
    revision: int | None = None
    event_id: str | None = None
    reason: str | None = None
    field: str | None = None
    warnings: Sequence[str] = ()


@dataclass
class Summary:
    """What became of a folder."""

    folder: str
    source: str | None
    prefix: str | None
    files: list[FileResult] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Files by status; every status occurs."""
        counted = Counter(file.status for file in self.files)
        return {status: counted.pop(status, 0) for status in STATUSES} | dict(counted)

    def rejected(self) -> list[FileResult]:
        """Files that are not in Cairn."""
        return [file for file in self.files if file.status == "rejected"]

    def event_ids(self) -> list[str]:
        """The events that make the files searchable."""
        return [file.event_id for file in self.files if file.event_id]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "folder": self.folder,
            "source": self.source,
            "prefix": self.prefix,
            "counts": self.counts(),
            "files": [asdict(file) for file in self.files],
        }


@dataclass(frozen=True)
class Watch:
    """Who wants to know how it goes: `advance(files)` done, `waiting(error)` while Cairn is away."""

    advance: Callable[[int], None] = lambda _: None
    waiting: Callable[[Unreachable], None] = lambda _: None


def count(root: Path) -> int:
    """How many files `import_folder` will report on."""
    listing = list_folder(root)
    return len(listing.files) + len(listing.refused)


def import_folder(
    cairn: Cairn, root: Path, *, source: str | None, prefix: str | None, watch: Watch = Watch()
) -> Summary:
    """Send every Markdown file below `root`. Repeating it changes nothing, so it is repeated while Cairn heals.

    Raises:
        Unreachable: Cairn stayed away; what was sent before is kept.
    """
    from cairn_shared.runbooks.model import MAX_MARKDOWN_BYTES

    listing = list_folder(root)
    summary = Summary(str(root), source, prefix)

    def refuse(refused: Refused) -> None:
        summary.files.append(FileResult(refused.path, "rejected", reason=refused.reason))
        watch.advance(1)

    def readable() -> Iterator[Document]:
        for path in listing.files:
            document = read(listing.root, path, MAX_MARKDOWN_BYTES)
            if isinstance(document, Refused):
                refuse(document)
            else:
                yield document

    for refused in listing.refused:
        refuse(refused)
    for batch in batches(readable()):
        summary.files += _send(cairn, batch, source, prefix, watch)
        watch.advance(len(batch))
    summary.files.sort(key=lambda file: file.path)
    return summary


def _send(
    cairn: Cairn, batch: Sequence[Document], source: str | None, prefix: str | None, watch: Watch
) -> list[FileResult]:
    body: dict[str, Any] = {"items": [{"path": item.path, "markdown": item.markdown} for item in batch]}
    body |= {name: value for name, value in (("source", source), ("prefix", prefix)) if value is not None}
    try:
        answer = as_object(
            cairn.request(
                "POST",
                "/runbooks/import",
                body=body,
                timeout=BATCH_TIMEOUT,
                patience=PATIENCE,
                on_wait=watch.waiting,
            )
        )
    except Rejected as exc:
        if not _splits(exc):
            raise
        if len(batch) == 1:
            return [FileResult(batch[0].path, "rejected", reason=exc.message)]
        middle = len(batch) // 2
        return _send(cairn, batch[:middle], source, prefix, watch) + _send(cairn, batch[middle:], source, prefix, watch)
    results = [_result(item) for item in answer.get("results", [])]
    if len(results) != len(batch):
        raise Unreachable(f"Cairn reported on {len(results)} of {len(batch)} files")
    return results


def _splits(refusal: Rejected) -> bool:
    """Whether one document of the batch is to blame, or the batch's size: then the others must not suffer."""
    return refusal.status == 413 or (refusal.field or "").startswith("items.")


def _result(item: dict[str, Any]) -> FileResult:
    names = FileResult.__dataclass_fields__
    known = {name: value for name, value in item.items() if name in names}
    return FileResult(**{"path": "", "status": "rejected", **known})
