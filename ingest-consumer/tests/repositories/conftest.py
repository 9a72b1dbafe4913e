from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from git_trees import GitTrees
from kept_notes import KeptNotes
from prometheus_client import CollectorRegistry

from cairn_ingest_consumer.repositories.handler import SyncMetrics, SyncRepositories
from cairn_ingest_consumer.repositories.sync import RepositorySync, SyncPolicy
from cairn_shared import mongo
from cairn_shared.clock import SystemClock
from cairn_shared.repositories.hosts import Hosts, RepositorySettings
from cairn_shared.repositories.model import Declaration
from cairn_shared.repositories.readers import open_reader
from cairn_shared.repositories.store import RepositoryStore
from cairn_shared.runbooks.store import RunbookStore
from cairn_shared.settings import MongoSettings


@pytest.fixture
def git(tmp_path: Path) -> Iterator[GitTrees]:
    trees = GitTrees(tmp_path / "runbooks.git")
    yield trees
    trees.repository.close()


@pytest.fixture
async def database(mongo_settings: MongoSettings) -> AsyncIterator[mongo.Database]:
    async with mongo.open_database(mongo_settings, "tests") as opened:
        yield opened


@pytest.fixture
async def runbooks(database: mongo.Database) -> RunbookStore:
    store = RunbookStore(database, SystemClock())
    await store.ensure_indexes()
    return store


@pytest.fixture
async def repositories(database: mongo.Database) -> RepositoryStore:
    store = RepositoryStore(database, SystemClock())
    await store.ensure_indexes()
    return store


@pytest.fixture
def ledger() -> KeptNotes:
    return KeptNotes()


@pytest.fixture
def make_handler(runbooks: RunbookStore, repositories: RepositoryStore, ledger: KeptNotes) -> Any:
    """A handler as one replica has it; `policy` and `settings` may differ."""

    def make(policy: SyncPolicy = SyncPolicy(), settings: RepositorySettings | None = None) -> SyncRepositories:
        clock = SystemClock()
        settings = settings or RepositorySettings(allow_local_repos=True)
        reader = partial(open_reader, settings=settings)
        return SyncRepositories(
            RepositorySync(runbooks, repositories, reader, clock, policy),
            repositories,
            hosts=Hosts(settings),
            ledger=ledger,
            metrics=SyncMetrics(CollectorRegistry()),
            clock=clock,
        )

    return make


@pytest.fixture
async def declared(repositories: RepositoryStore, git: GitTrees) -> Declaration:
    declaration = Declaration(name="ops", url=git.url, exclude=("README.md", "**/archive/**"))
    await repositories.declare(declaration, by="test")
    return declaration
