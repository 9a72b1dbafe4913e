"""Of several writes of one part in one batch, only the highest is worth doing. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from cairn_ingest_consumer.model import PIPELINE, KnownPart, PartWrite

Register = tuple[uuid.UUID, str]


def highest(writes: Iterable[PartWrite]) -> dict[Register, PartWrite]:
    """For every part its write with the highest rank, whatever the order they came in; sorted by part."""
    winners: dict[Register, PartWrite] = {}
    for write in writes:
        present = winners.get(write.key)
        if present is None or write.rank > present.rank:
            winners[write.key] = write
    return dict(sorted(winners.items()))


def is_news(write: PartWrite, known: KnownPart | None) -> bool:
    """Whether `write` should replace what is known: a higher rank, or the same one from a newer pipeline."""
    if known is None:
        return True
    return write.rank > known.rank or (write.rank == known.rank and known.pipeline < PIPELINE)


def is_same_content(write: PartWrite, known: KnownPart | None) -> bool:
    """Whether the index holds this very content already, so that only the version has to be noted."""
    return (
        known is not None
        and not known.deleted
        and not write.deleted
        and not write.rewrite
        and known.content_sha == write.content_sha
        and known.pipeline == PIPELINE
    )


def news(writes: Mapping[Register, PartWrite], known: Mapping[Register, KnownPart]) -> dict[Register, PartWrite]:
    """Those of `writes` that are news."""
    return {key: write for key, write in writes.items() if is_news(write, known.get(key))}
