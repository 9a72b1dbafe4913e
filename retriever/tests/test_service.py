"""The process's HTTP face, with real PostgreSQL and an embedder that is away unless a test starts one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import SecretStr
from retriever_corpus import NOW, Document, event, write

from cairn_retriever.app import create_app
from cairn_retriever.settings import RetrieverSettings
from cairn_shared.api.embedding import EmbedRequest
from cairn_shared.embedder_client import EmbedderClient, open_client

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool

NOWHERE = "http://127.0.0.1:9"


def settings(dsn: str, embedder: str = NOWHERE, lexicon_max_age: float = 0.0) -> RetrieverSettings:
    return RetrieverSettings(pg_dsn=SecretStr(dsn), embedder_url=embedder, port=0, lexicon_max_age=lexicon_max_age)


@pytest.fixture
async def client(postgres_dsn: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings(postgres_dsn))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://retriever") as opened,
    ):
        yield opened


class TestSearch:
    async def test_answers_with_steps_and_what_is_missing(self, pool: Pool, client: httpx.AsyncClient) -> None:
        await write(pool, [Document("drain", "Drain a node", ["Cordon it.", "Drain it."], path="k8s/drain.md")])
        answer = (await client.post("/search", json={"query": "drain the node", "explain": True})).json()
        hit = answer["results"][0]
        assert (hit["runbook_id"], hit["path"], hit["source"]) == ("drain", "k8s/drain.md", "api")
        assert answer["degraded"] == ["embedder"]
        assert answer["epoch"] == 1
        assert set(answer["timings"]) >= {"embed_ms", "candidates_ms", "total_ms"}
        assert {one["lexeme"] for one in answer["explain"]["lexemes"]} == {"drain", "node"}
        assert hit["features"]["bm25"] > 0

    async def test_an_empty_index_gives_nothing_and_refuses(self, client: httpx.AsyncClient) -> None:
        answer = (await client.post("/search", json={"query": "anything"})).json()
        assert answer["results"] == []
        assert answer["gate"]["enough"] is False

    @pytest.mark.parametrize("query", ["", "   ", "?!", "\U0001f525", "the of and"])
    async def test_a_query_of_nothing_is_no_error(self, pool: Pool, client: httpx.AsyncClient, query: str) -> None:
        await write(pool, [Document("drain", "Drain a node", ["Cordon it."])])
        assert (await client.post("/search", json={"query": query})).status_code == 200

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"query": "x", "k": 0}, "k"),
            ({"query": "x", "k": 101}, "k"),
            ({"query": "x" * 40_000}, "query"),
            ({"query": "x", "mode": "psychic"}, "mode"),
            ({"query": "x", "surprise": 1}, "surprise"),
            ({"query": "x", "filters": {"since": "2026-01-01T00:00:00"}}, "filters.since"),
            ({"query": "x", "filters": {"kind": "poem"}}, "filters.kind"),
        ],
    )
    async def test_bad_requests_name_the_field(
        self, client: httpx.AsyncClient, body: dict[str, object], field: str
    ) -> None:
        """Pitfall 16 among them: a time without its zone is refused."""
        response = await client.post("/search", json=body)
        assert response.status_code == 422
        assert response.json()["field"] == field

    async def test_what_was_deleted_is_gone(self, pool: Pool, client: httpx.AsyncClient) -> None:
        await write(pool, [Document("drain", "Drain a node", ["Cordon it."])])
        await pool.execute("UPDATE documents SET deleted = true")
        await pool.execute("DELETE FROM steps")
        assert (await client.post("/search", json={"query": "drain"})).json()["results"] == []

    async def test_new_words_are_found_at_once(self, pool: Pool, postgres_dsn: str) -> None:
        """Even where the frequencies of words are an hour old."""
        app = create_app(settings(postgres_dsn, lexicon_max_age=3600.0))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://retriever") as client,
        ):
            await write(pool, [Document("one", "First", ["Alpha."])])
            await client.post("/search", json={"query": "alpha"})
            await write(pool, [Document("two", "Second", ["Omega."])])
            answer = (await client.post("/search", json={"query": "omega"})).json()
        assert answer["results"][0]["runbook_id"] == "two"


async def test_real_vectors_find_what_no_word_matches(pool: Pool, postgres_dsn: str, embedder_url: str) -> None:
    texts = {
        "disk": "Free space on a full volume",
        "bread": "Knead the dough",
        "lag": "The replica is behind its primary",
    }
    async with open_client(embedder_url, 30) as http:
        answer = await EmbedderClient(http).embed(EmbedRequest(texts=list(texts.values())))
    documents = [
        Document(name, text, [text], vector=vector)
        for (name, text), vector in zip(texts.items(), answer.vectors, strict=True)
    ]
    await write(pool, documents, fingerprint=answer.fingerprint)
    app = create_app(settings(postgres_dsn, embedder_url))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://retriever") as client,
    ):
        body = {"query": "the storage has run out of room", "mode": "semantic"}
        first = (await client.post("/search", json=body)).json()
        assert first["results"][0]["runbook_id"] == "disk"
        assert first["degraded"] == []
        await client.post("/search", json=body)
        metrics = (await client.get("/metrics")).text
    assert 'cairn_query_vectors_total{result="hit"} 1.0' in metrics
    assert 'cairn_query_vectors_total{result="miss"} 1.0' in metrics


async def checked_vectors(client: httpx.AsyncClient) -> tuple[int, dict[str, int]]:
    """How many chunks were compared, two at a time, and the wrong ones."""
    checked, wrong, params = 0, dict[str, int](), {"source": "api", "limit": "2"}
    while True:
        page = (await client.get("/index/vectors", params=params)).json()
        checked, wrong = checked + page["checked"], wrong | page["wrong"]
        if page["next"] is None:
            return checked, wrong
        params["after"] = page["next"]


class TestIndexReports:
    async def test_status(self, pool: Pool, client: httpx.AsyncClient) -> None:
        await write(pool, [Document("one", "One", ["a", "b"]), event("e", "c"), event("f", "d", kind="log")])
        status = (await client.get("/index/status")).json()
        assert status["documents"] == {"runbook": 1, "alert": 1, "log": 1}
        assert (status["steps"], status["chunks"], status["epoch"]) == (4, 4, 1)
        assert status["fingerprint"] == "bag-of-words"

    async def test_status_of_an_empty_index(self, client: httpx.AsyncClient) -> None:
        status = (await client.get("/index/status")).json()
        assert status["documents"] == {}
        assert status["last_indexed_at"] is None

    async def test_documents_page_by_page(self, pool: Pool, client: httpx.AsyncClient) -> None:
        await write(pool, [Document(f"book-{i}", "Book", ["a", f"b{i}"]) for i in range(7)])
        seen: list[str] = []
        after: str | None = None
        for _ in range(10):
            params = {"limit": "3"} | ({"after": after} if after else {})
            page = (await client.get("/index/documents", params=params)).json()
            seen += [one["external_id"] for one in page["documents"]]
            assert all((one["steps"], one["chunks"], one["broken_vectors"]) == (2, 2, 0) for one in page["documents"])
            after = page["next"]
            if after is None:
                break
        assert sorted(seen) == [f"book-{i}" for i in range(7)]

    async def test_documents_by_source_and_kind(self, pool: Pool, client: httpx.AsyncClient) -> None:
        await write(pool, [Document("one", "One", ["a"]), event("e", "c")])
        for params, expected in (({"kind": "alert"}, ["e"]), ({"source": "api"}, ["one"]), ({"source": "nowhere"}, [])):
            page = (await client.get("/index/documents", params=params)).json()
            assert [one["external_id"] for one in page["documents"]] == expected

    async def test_missing_and_foreign_vectors_are_broken(self, pool: Pool, client: httpx.AsyncClient) -> None:
        await write(
            pool, [Document("whole", "W", ["a"]), Document("missing", "M", ["b"]), Document("foreign", "F", ["c"])]
        )
        await pool.execute(
            "DELETE FROM chunk_embeddings_384 USING chunks c JOIN documents d USING (document_id)"
            " WHERE chunk_embeddings_384.chunk_id = c.chunk_id AND d.external_id = 'missing'"
        )
        await pool.execute("ALTER TABLE chunk_embeddings_384 DROP CONSTRAINT one_model")
        await pool.execute(
            "UPDATE chunk_embeddings_384 e SET fingerprint = 'older' FROM chunks c JOIN documents d USING (document_id)"
            " WHERE e.chunk_id = c.chunk_id AND d.external_id = 'foreign'"
        )
        page = (await client.get("/index/documents")).json()
        broken = {one["external_id"]: one["broken_vectors"] for one in page["documents"]}
        assert broken == {"whole": 0, "missing": 1, "foreign": 1}

    async def test_texts_that_are_not_those_of_their_hashes_are_told(
        self, pool: Pool, client: httpx.AsyncClient
    ) -> None:
        await write(pool, [Document("whole", "W", ["a"]), Document("step", "S", ["b"]), Document("chunk", "C", ["c"])])
        for table, change, name in (("steps", "body = 'x'", "step"), ("chunks", "embed_text = 'x'", "chunk")):
            await pool.execute(
                f"UPDATE {table} SET {change} WHERE document_id = (SELECT document_id FROM documents"
                " WHERE external_id = $1)",
                name,
            )
        page = (await client.get("/index/documents")).json()
        assert {one["title"] for one in page["documents"]} == {"W", "S", "C"}
        found = {one["external_id"]: (one["altered_steps"], one["broken_vectors"]) for one in page["documents"]}
        assert found == {"whole": (0, 0), "step": (1, 0), "chunk": (0, 1)}

    async def test_a_sound_vector_of_another_text_is_found_by_embedding_again(
        self, pool: Pool, postgres_dsn: str, embedder_url: str
    ) -> None:
        texts = {f"book-{number}": f"Restart service {number}" for number in range(5)}
        async with open_client(embedder_url, 30) as http:
            answer = await EmbedderClient(http).embed(EmbedRequest(texts=list(texts.values())))
        documents = [
            Document(name, text, [text], vector=vector)
            for (name, text), vector in zip(texts.items(), answer.vectors, strict=True)
        ]
        await write(pool, documents, fingerprint=answer.fingerprint)
        await pool.execute("UPDATE chunks SET embed_text = text, embed_sha = encode(sha256(text::bytea), 'hex')")
        app = create_app(settings(postgres_dsn, embedder_url))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://retriever") as client,
        ):
            assert await checked_vectors(client) == (5, {})
            await pool.execute(
                "UPDATE chunk_embeddings_384 SET embedding = (SELECT embedding FROM chunk_embeddings_384 e"
                " JOIN chunks USING (chunk_id) WHERE text = 'Restart service 1')"
                " WHERE chunk_id = (SELECT chunk_id FROM chunks WHERE text = 'Restart service 2')"
            )
            page = (await client.get("/index/documents")).json()
            assert {one["broken_vectors"] for one in page["documents"]} == {0}, "nothing else tells"
            assert await checked_vectors(client) == (5, {"book-2": 1})

    async def test_vectors_of_a_model_that_no_embedder_has_are_not_judged(
        self, pool: Pool, postgres_dsn: str, embedder_url: str
    ) -> None:
        app = create_app(settings(postgres_dsn, embedder_url))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://retriever") as client,
        ):
            assert await checked_vectors(client) == (0, {}), "an empty index has none"
            await write(pool, [Document("one", "One", ["a"])])
            answer = await client.get("/index/vectors", params={"source": "api"})
        assert (answer.status_code, answer.json()["detail"]) == (503, "no embedder has the model of the index")

    async def test_ledger(self, pool: Pool, client: httpx.AsyncClient) -> None:
        known, unknown = uuid.uuid4(), uuid.uuid4()
        await pool.execute(
            'INSERT INTO ingest_ledger (event_id, version, state, topic, partition, "offset", accepted_at, settled_at)'
            " VALUES ($1, 3, 'searchable', 't', 0, 7, $2, $3)",
            known,
            NOW - timedelta(seconds=1),
            NOW,
        )
        answer = (await client.post("/index/ledger", json={"event_ids": [str(known), str(unknown)]})).json()
        assert [(one["event_id"], one["state"], one["version"]) for one in answer["entries"]] == [
            (str(known), "searchable", 3)
        ]

    async def test_alerts_without_a_runbook_are_counted(self, pool: Pool, client: httpx.AsyncClient) -> None:
        row = (
            "INSERT INTO documents (document_id, kind, source, external_id, title, occurred_at, labels, alerts)"
            " VALUES ($1, $2, 'x', $3, 't', $4, $5::jsonb, $6)"
        )
        labels = [
            ("alert", "DiskFull", []),
            ("alert", "DiskFull", []),
            ("alert", "Known", []),
            ("runbook", "", ["known"]),
        ]
        for number, (kind, name, alerts) in enumerate(labels):
            text = f'{{"alertname": "{name}"}}' if name else "{}"
            await pool.execute(row, uuid.uuid4(), kind, f"{number}", NOW, text, alerts)
        old = (NOW + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        since = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
        found = (await client.get(f"/index/silent-alerts?since={since}")).json()["alerts"]
        assert [(one["name"], one["fired"]) for one in found] == [("DiskFull", 2)]
        assert (await client.get(f"/index/silent-alerts?since={old}")).json()["alerts"] == []

    async def test_what_was_settled_is_listed_and_counted(self, pool: Pool, client: httpx.AsyncClient) -> None:
        ids = [uuid.uuid4() for _ in range(3)]
        await pool.executemany(
            'INSERT INTO ingest_ledger (event_id, version, state, topic, partition, "offset", accepted_at, settled_at)'
            " VALUES ($1, 1, $2, 't', 0, $3, $4, $5)",
            [
                (ids[0], "searchable", 1, NOW - timedelta(seconds=4), NOW),
                (ids[1], "searchable", 2, NOW - timedelta(seconds=2), NOW + timedelta(minutes=1)),
                (ids[2], "dead", 3, None, NOW + timedelta(hours=1)),
            ],
        )
        since = (NOW + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for query, expected in (("", ids), ("?limit=2", ids[1:]), (f"?limit=1&since={since}", ids[1:2])):
            answer = (await client.get(f"/index/events{query}")).json()
            assert [one["event_id"] for one in answer["events"]] == [str(one) for one in expected]
        counts = (await client.get("/index/ingest", params={"since": NOW.isoformat()})).json()["counts"]
        assert [(one["state"], one["events"]) for one in counts] == [("searchable", 2), ("dead", 1)]
        assert [one["seconds"] for one in counts] == [(4 + 62) / 2, None]

    @pytest.mark.parametrize(
        "path",
        [
            "/index/documents?limit=0",
            "/index/documents?after=x",
            "/index/documents?limit=9999",
            "/index/events?since=yesterday",
            "/index/ingest",
        ],
    )
    async def test_bad_parameters_are_refused(self, client: httpx.AsyncClient, path: str) -> None:
        assert (await client.get(path)).status_code == 422


class TestReadiness:
    async def test_ready_without_the_embedder(self, client: httpx.AsyncClient) -> None:
        assert (await client.get("/health/ready")).status_code == 200

    async def test_a_lost_database_is_a_503_that_names_it(self, pool: Pool, client: httpx.AsyncClient) -> None:
        await pool.execute("ALTER TABLE corpus_state RENAME TO hidden")
        response = await client.post("/search", json={"query": "x"})
        assert response.status_code == 503
        assert "corpus_state" not in response.text
