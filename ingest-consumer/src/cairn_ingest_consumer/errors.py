"""What ingest raises beside `cairn_shared.errors`.

CairnError
├── Rejected       some records of a batch can never succeed; nothing was written
├── TextRefused    the embedder refuses one text for good
├── NothingUsable  a model's output cannot be used, or it refuses what it is shown
└── ContentMoved   the index changed between reading and writing: read again
"""

from __future__ import annotations

from collections.abc import Mapping

from cairn_ingest_consumer.model import Delivery
from cairn_shared.errors import CairnError, PermanentError


class Rejected(CairnError):
    """Raised by an `EventHandler` that knows the culprits: they are dead-lettered and the others tried again."""

    title = "Records rejected"

    def __init__(self, culprits: Mapping[int, tuple[Delivery, PermanentError]]) -> None:
        super().__init__(f"{len(culprits)} records cannot be processed")
        self.culprits = dict(culprits)


class ContentMoved(CairnError):
    """Another replica wrote the document meanwhile; what was read of it is out of date."""

    title = "Content moved"


class TextRefused(CairnError):
    """`index` is the text's place in what was to be embedded, `detail` the embedder's reason."""

    title = "Text refused"

    def __init__(self, index: int, detail: str) -> None:
        super().__init__(detail)
        self.index = index


class NothingUsable(CairnError):
    """Of what a model was asked for nothing came; asking again may help, but not for ever."""

    title = "Nothing usable"
