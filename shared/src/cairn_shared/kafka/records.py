"""What the engine passes around: a partition's name and a record, byte for byte as the broker gave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


Headers = tuple[tuple[str, bytes | None], ...]
TimestampType = Literal["create", "append"]


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record. `None` and empty are different, for keys and for values."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    timestamp_type: TimestampType | None = None

    @property
    def home(self) -> Partition:
        """The partition that the record lies on."""
        return Partition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")

    def header(self, name: str) -> bytes | None:
        """The last header of that name, as Kafka's own `lastHeader`."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


@dataclass(frozen=True)
class EndOfLog:
    """The fetcher reached the end of a partition: nothing lies between its position and `offset`."""

    partition: Partition
    offset: int


@dataclass(frozen=True)
class OffsetOutOfRange:
    """The fetch position does not exist in the log: records expired, or this is another log."""

    partition: Partition


@dataclass(frozen=True)
class FetchProblem:
    """Anything else the client reports; it goes on by itself unless `fatal`."""

    name: str
    detail: str
    fatal: bool = False


Fetched = Record | EndOfLog | OffsetOutOfRange | FetchProblem
