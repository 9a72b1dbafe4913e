"""The only module that knows motor, so that changing the driver is an hour's work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from motor.motor_asyncio import (
    AsyncIOMotorClient,
    AsyncIOMotorClientSession,
    AsyncIOMotorCollection,
    AsyncIOMotorDatabase,
)
from pymongo import ReturnDocument, errors
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from cairn_shared.errors import CairnError, Conflict, TransientError, Unavailable
from cairn_shared.retry import until_up
from cairn_shared.settings import MongoSettings

Document: TypeAlias = dict[str, Any]
Client: TypeAlias = "AsyncIOMotorClient[Document]"
Database: TypeAlias = "AsyncIOMotorDatabase[Document]"
Collection: TypeAlias = "AsyncIOMotorCollection[Document]"
Session: TypeAlias = AsyncIOMotorClientSession

MongoError = errors.PyMongoError
DuplicateKey = errors.DuplicateKeyError
BulkWriteFailure = errors.BulkWriteError
AFTER = ReturnDocument.AFTER

_DUPLICATE_KEY = 11000


class WriteConflict(TransientError):
    """Another transaction wrote the same document first: run the whole transaction again at once."""

    title = "Write conflict"


@asynccontextmanager
async def open_database(settings: MongoSettings, process: str, *, wait: bool = True) -> AsyncIterator[Database]:
    """Wait for MongoDB, open the client, close it at the end. Writes are majority-acknowledged.

    Without `wait` the client connects at its first use, for a process that can do other work meanwhile.
    """
    milliseconds = int(settings.mongo_timeout * 1000)
    client: Client = AsyncIOMotorClient(
        settings.mongo_uri.get_secret_value(),
        appname=process,
        tz_aware=True,
        serverSelectionTimeoutMS=milliseconds,
        connectTimeoutMS=milliseconds,
        socketTimeoutMS=milliseconds * 2,
        uuidRepresentation="standard",
    )
    database = client.get_database(
        settings.mongo_database, write_concern=WriteConcern("majority"), read_concern=ReadConcern("majority")
    )
    try:
        if wait:
            await until_up("mongo", lambda: database.command("ping"))
        yield database
    finally:
        client.close()


async def ping(database: Database) -> None:
    """Raise unless MongoDB answers."""
    await database.command("ping")


@asynccontextmanager
async def transaction(database: Database) -> AsyncIterator[Session]:
    """One transaction; an error inside aborts it. Driver errors come out as ours."""
    try:
        async with await database.client.start_session() as session, session.start_transaction():
            yield session
    except errors.PyMongoError as exc:
        raise translate(exc) from exc


@contextmanager
def translated() -> Iterator[None]:
    """Driver errors inside come out as ours."""
    try:
        yield
    except errors.PyMongoError as exc:
        raise translate(exc) from exc


async def put(collection: Collection, key: Any, fields: Document, at_birth: Document) -> Document | None:
    """Set `fields` on the document `key`, made with `at_birth` if it is not there; the document as it was before."""
    change = {"$set": fields, "$setOnInsert": at_birth}
    with translated():
        before: Document | None = await collection.find_one_and_update(
            {"_id": key}, change, upsert=True, return_document=ReturnDocument.BEFORE
        )
        return before


def only_duplicates(exc: errors.BulkWriteError) -> bool:
    """Whether every write of a bulk that failed did so because the document was there already."""
    details = exc.details or {}
    return not details.get("writeConcernErrors") and all(
        error["code"] == _DUPLICATE_KEY for error in details.get("writeErrors", [])
    )


@dataclass(frozen=True)
class Index:
    """An index by name; `options` are those of `createIndexes`."""

    name: str
    keys: tuple[tuple[str, int], ...]
    options: Mapping[str, Any] = field(default_factory=dict)


async def ensure_indexes(collection: Collection, indexes: Sequence[Index]) -> None:
    """Create what is missing; an index that is there already costs one round trip."""
    with translated():
        for index in indexes:
            await collection.create_index(list(index.keys), name=index.name, **index.options)


def translate(exc: errors.PyMongoError) -> CairnError:
    """Any error of the driver as one of ours."""
    if isinstance(exc, errors.DuplicateKeyError):
        return Conflict("it exists already")
    if isinstance(exc, errors.ConnectionFailure):
        return Unavailable("mongo")
    if exc.has_error_label("TransientTransactionError"):
        return WriteConflict("mongo: another write came first")
    return TransientError(f"mongo: {type(exc).__name__}")
