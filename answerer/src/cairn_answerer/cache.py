"""Answers kept under a key that names everything they depend on, and checked again when they are read.

The key holds the corpus epoch that was read before retrieval: an answer made from an older corpus lands under an older
key, where nobody looks. Events do not move the epoch, so an answer also lists the steps that it was written from, and
their hashes are compared on every read. What is degraded is never stored.
"""

from __future__ import annotations

import hashlib
import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import orjson
from pydantic import BaseModel, ValidationError

from cairn_answerer.metrics import Metrics
from cairn_answerer.model import CorpusState, Produced
from cairn_answerer.ports import AnswerStore, Corpus
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.errors import TransientError

SCHEMA = 2
"""Raise with every change of `Entry` or of the meaning of a response."""

MAX_ENTRY = 512 * 1024
"""Bytes of one entry; larger ones are neither stored nor read."""

_STATE_KEY = "cairn:ans:last-state"
_STATE_SECONDS = 24 * 3600.0
_JITTER = 0.1


class Entry(BaseModel):
    """What is stored."""

    schema_version: int
    response: AskResponse
    dependencies: dict[uuid.UUID, str]


class State(BaseModel):
    """The last corpus state that any replica saw."""

    epoch: int
    fingerprint: str | None


@dataclass(frozen=True)
class Fingerprints:
    """What else decides an answer: the model with its settings, the prompt, the way of retrieval."""

    model: str
    prompt: str
    retrieval: str


def normalised(question: str) -> str:
    """NFKC, trimmed, single blanks, no case. Punctuation and order stay: they carry meaning in commands."""
    return " ".join(unicodedata.normalize("NFKC", question).split()).casefold()


def key(request: AskRequest, state: CorpusState | None, fingerprints: Fingerprints) -> str:
    """Equal for requests with the same answer. Parts are length-prefixed, so that no two ways of cutting collide."""
    parts = [
        str(state.epoch) if state else "unknown",
        (state.fingerprint if state else None) or "none",
        fingerprints.model,
        fingerprints.prompt,
        fingerprints.retrieval,
        str(request.k),
        request.filters.model_dump_json(),
        orjson.dumps(request.alert.model_dump() if request.alert else None, option=orjson.OPT_SORT_KEYS).decode(),
        request.context.model_dump_json() if request.context else "",
        normalised(request.question),
    ]
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return f"cairn:ans:v{SCHEMA}:{parts[0]}:{digest.hexdigest()}"


def encode(produced: Produced) -> bytes:
    """An entry as bytes, for the cache and for waiting replicas."""
    return (
        Entry(schema_version=SCHEMA, response=produced.response, dependencies=dict(produced.dependencies))
        .model_dump_json()
        .encode()
    )


@lru_cache(maxsize=64)
def decode(data: bytes) -> Produced | None:
    """The entry, or None when it is not one that this version wrote.

    Reading an entry costs more than the rest of a hit, and what is asked again and again has the same bytes.
    """
    if len(data) > MAX_ENTRY:
        return None
    try:
        entry = Entry.model_validate_json(data)
    except ValidationError:
        return None
    return Produced(entry.response, entry.dependencies) if entry.schema_version == SCHEMA else None


class AnswerCache:
    """Finds and keeps answers. Losing the store means not finding."""

    def __init__(
        self,
        store: AnswerStore,
        corpus: Corpus,
        metrics: Metrics,
        uniform: Callable[[float, float], float],
    ) -> None:
        self._store = store
        self._corpus = corpus
        self._metrics = metrics
        self._uniform = uniform
        self.last: CorpusState | None = None
        """The state of the corpus when this process last asked for it."""

    async def find(self, key: str, state: CorpusState | None) -> tuple[CorpusState | None, Produced | None]:
        """The answer under `key`, which was made for `state`, if that still is the state and no source has changed.

        And the state as it is now. Without `state` the corpus cannot be asked: the key's epoch is all that is known.
        """
        data = await self._store.get(key)
        if data is None:
            return state, None
        produced = decode(data)
        if produced is None:
            self._metrics.cache("corrupt")
            return state, None
        if state is None:
            return None, produced
        try:
            now, unchanged = await self._corpus.check(produced.dependencies)
        except TransientError:
            return state, None
        if unchanged and now.is_of(state):
            return now, produced
        self._metrics.cache("stale")
        return now, None

    async def keep(self, key: str, produced: Produced) -> None:
        """Store it for its time, give or take a tenth, so that not all expire at once."""
        if produced.ttl is None:
            return
        data = encode(produced)
        if len(data) <= MAX_ENTRY:
            await self._store.put(key, data, produced.ttl * self._uniform(1 - _JITTER, 1 + _JITTER))
            self._metrics.cache("stored")

    async def remember(self, state: CorpusState) -> None:
        """Note the corpus state, for the next question, and for the time when nobody can be asked."""
        known, self.last = self.last, state
        if known is None or not known.is_of(state):
            noted = State(epoch=state.epoch, fingerprint=state.fingerprint)
            await self._store.put(_STATE_KEY, noted.model_dump_json().encode(), _STATE_SECONDS)

    async def recall(self) -> CorpusState | None:
        """The last state that this or another replica saw."""
        last = self.last
        data = await self._store.get(_STATE_KEY)
        if data is not None:
            try:
                stored = State.model_validate_json(data)
            except ValidationError:
                stored = None
            if stored and (last is None or stored.epoch > last.epoch):
                return CorpusState(epoch=stored.epoch, fingerprint=stored.fingerprint)
        return CorpusState(epoch=last.epoch, fingerprint=last.fingerprint) if last else None
