from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from pydantic import SecretStr

sys.path.insert(0, str(Path(__file__).parent / "support"))

if TYPE_CHECKING:
    from answerer_bench import Bench
    from answerer_servers import FakeRetriever, ScriptedModel

    from cairn_answerer.settings import AnswererSettings


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """A model that answers well until a test says otherwise."""
    from answerer_servers import GOOD, ScriptedModel

    server = ScriptedModel()
    server.scripts = [GOOD]
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def retriever() -> AsyncIterator[FakeRetriever]:
    """A retriever that finds the first two steps of the runbook."""
    from answerer_corpus import make_hit, make_search
    from answerer_servers import FakeRetriever

    server = FakeRetriever()
    server.answer = make_search(make_hit(1), make_hit(2))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def bench(retriever: FakeRetriever, model: ScriptedModel) -> AsyncIterator[Bench]:
    """The pipeline without PostgreSQL and Redis; the corpus holds the four steps."""
    from answerer_bench import Bench, MemoryStore
    from answerer_corpus import MemoryCorpus, make_passage

    steps = [make_passage(number, score=0.0) for number in (1, 2, 3, 4)]
    async with AsyncExitStack() as clients:
        yield Bench(retriever, model, MemoryCorpus(steps), MemoryStore(), clients)


@pytest.fixture
async def index(postgres_dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A migrated database with one runbook of four steps, as the fake retriever finds it."""
    from answerer_corpus import DOCUMENT, STEPS, TITLE, step_id

    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute(
        "INSERT INTO documents (document_id, kind, source, external_id, title, version) "
        "VALUES ($1, 'runbook', 'api', 'pg-replica', $2, 3)",
        DOCUMENT,
        TITLE,
    )
    for number, body in enumerate(STEPS, 1):
        await connection.execute(
            "INSERT INTO steps (step_id, document_id, step_number, label, section, body, content_sha) "
            "VALUES ($1, $2, $3, $4, 'Steps', $5, $6)",
            step_id(number),
            DOCUMENT,
            number,
            str(number),
            body,
            f"sha-{number}",
        )
    await connection.execute("UPDATE corpus_state SET epoch = 1, fingerprint = 'minilm'")
    yield connection
    await connection.close()


@pytest.fixture
def make_settings(
    postgres_dsn: str, redis_url: str, retriever: FakeRetriever, model: ScriptedModel
) -> Callable[..., AnswererSettings]:
    """Settings that point at the servers of this test; time is short."""
    from cairn_answerer.settings import AnswererSettings

    def make(**changes: Any) -> AnswererSettings:
        values: dict[str, Any] = {
            "pg_dsn": SecretStr(postgres_dsn),
            "redis_url": SecretStr(redis_url),
            "redis_timeout": 2.0,  # the machine that runs tests may be busy
            "retriever_url": retriever.url,
            "llm_base_url": f"{model.url}/v1",
            "llm_api_key": SecretStr("sk-test-key"),
            "llm_model": "scripted",
            "llm_attempt_timeout": 0.6,
            "ask_deadline": 3.0,
            "flight_lease": 0.6,
        }
        return AnswererSettings(**{**values, **changes})

    return make
