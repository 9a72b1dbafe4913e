"""`Names` in MongoDB: one small document for each issue that was ever seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cairn_shared import mongo
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

_FRESH = 10_000
"""So many names that were written by this process are not written again."""


class MongoNames:
    """As `ports.Names`."""

    def __init__(self, collection: mongo.Collection) -> None:
        self._collection = collection
        self._written: dict[str, str] = {}

    async def remember(self, source: str, names: Mapping[str, str]) -> None:
        for number, name in names.items():
            key = f"{source}|{number}"
            if self._written.get(key) == name:
                continue
            try:
                await mongo.put(self._collection, key, {"name": name}, {})
            except TransientError as exc:
                log.warning("a name is not remembered", source=source, reason=exc.detail)
                return
            if len(self._written) >= _FRESH:
                self._written.clear()
            self._written[key] = name

    async def recall(self, source: str, numbers: Collection[str]) -> dict[str, str]:
        keys = {f"{source}|{number}": number for number in numbers}
        with mongo.translated():
            found = self._collection.find({"_id": {"$in": list(keys)}})
            return {keys[one["_id"]]: one["name"] async for one in found}
