"""The index as it stands, compared with the log: continuously for what must never be seen, at the end for all."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import asyncpg
import httpx
import numpy as np
from chaos_log import BrokerLog
from pgvector.asyncpg import register_vector

from cairn_ingest_consumer.collapse import Register
from cairn_ingest_consumer.model import MAIN_PART, PartWrite, Rank
from cairn_shared.api.embedding import EmbedRequest
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.errors import CairnError
from cairn_shared.postgres import FAILURES


@dataclass
class Snapshot:
    """One moment of the index, read in one transaction."""

    ranks: dict[Register, Rank]
    tombstones: set[Register]
    deleted: set[uuid.UUID]
    steps: dict[Register, dict[int, str]]
    chunks: dict[Register, dict[int, list[str]]]
    bare: int
    """Chunks without a vector of the index's own model."""


async def read(connection: asyncpg.Connection[asyncpg.Record]) -> Snapshot:
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        documents = await connection.fetch("SELECT document_id FROM documents WHERE deleted")
        parts = await connection.fetch(
            "SELECT document_id, part, version, arrived, event_id, deleted FROM document_parts"
        )
        steps = await connection.fetch("SELECT document_id, part, step_number, body FROM steps")
        chunks = await connection.fetch(
            "SELECT s.document_id, s.part, s.step_number, c.text FROM chunks c JOIN steps s USING (step_id)"
            " ORDER BY c.ordinal"
        )
        bare = await connection.fetchval(
            "SELECT count(*) FROM chunks LEFT JOIN chunk_embeddings_384 e USING (chunk_id)"
            " WHERE e.chunk_id IS NULL OR e.fingerprint IS DISTINCT FROM (SELECT fingerprint FROM corpus_state)"
        )
    found_steps: dict[Register, dict[int, str]] = defaultdict(dict)
    for row in steps:
        found_steps[row["document_id"], row["part"]][row["step_number"]] = row["body"]
    found_chunks: dict[Register, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in chunks:
        found_chunks[row["document_id"], row["part"]][row["step_number"]].append(row["text"])
    keyed = {(row["document_id"], row["part"]): row for row in parts}
    return Snapshot(
        ranks={key: Rank(row["version"], row["arrived"], row["event_id"]) for key, row in keyed.items()},
        tombstones={key for key, row in keyed.items() if row["deleted"]},
        deleted={row["document_id"] for row in documents},
        steps=found_steps,
        chunks=found_chunks,
        bare=bare,
    )


def content_fault(snapshot: Snapshot, key: Register, write: PartWrite) -> str | None:
    """How the content of one part differs from the write that it says it is of."""
    steps, chunks = snapshot.steps.get(key, {}), snapshot.chunks.get(key, {})
    if write.deleted or key[0] in snapshot.deleted:
        return "a deleted text is still there" if steps or chunks else None
    wanted = {step.number: step.body for step in write.steps if step.body.strip()}
    if steps != wanted:
        return "steps of another version"
    if set(chunks) != set(wanted):
        return "a step without chunks, or chunks without their step"
    if any(
        line not in wanted[number] for number, texts in chunks.items() for text in texts for line in text.split("\n")
    ):
        return "chunks of another version"
    return None


@dataclass
class Checker:
    """Looks again and again. `violations` must stay empty; `looks` says how often it looked."""

    dsn: str
    log: BrokerLog
    pause: float = 0.4
    looks: int = 0
    violations: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _seen: dict[Register, Rank] = field(default_factory=dict)

    async def run(self) -> None:
        """Until cancelled; PostgreSQL may come and go."""
        while True:
            try:
                connection = await asyncpg.connect(self.dsn, timeout=5, command_timeout=10)
            except FAILURES:
                await asyncio.sleep(self.pause)
                continue
            try:
                while True:
                    self.check(await read(connection))
                    self.looks += 1
                    await asyncio.sleep(self.pause)
            except FAILURES:
                connection.terminate()
            finally:
                if not connection.is_closed():
                    connection.terminate()

    def check(self, snapshot: Snapshot) -> None:
        """Note what no reader may ever see."""
        if snapshot.bare:
            self._note("mixed", f"{snapshot.bare} chunks without a vector of the index's model")
        for key, before in self._seen.items():
            if key not in snapshot.ranks:
                self._note("lost", f"{key} was indexed and is gone")
            elif snapshot.ranks[key] < before:
                self._note("resurrected", f"{key} went back from {before} to {snapshot.ranks[key]}")
        for key, rank in snapshot.ranks.items():
            self._seen[key] = max(rank, self._seen.get(key, rank))
            write = self.log.writes.get(rank.event_id)
            if write is None:  # the reader of the log has not come to it yet
                continue
            if fault := content_fault(snapshot, key, write):
                kind = "resurrected" if write.deleted or key[0] in snapshot.deleted else "mixed"
                self._note(kind, f"{key} at {rank.version}: {fault}")

    def _note(self, kind: str, text: str) -> None:
        if text not in self.violations[kind]:
            self.violations[kind].append(text)


@dataclass
class Verdict:
    """How the index differs from the model, by kind; and what was done twice."""

    faults: dict[str, list[str]]
    parts: int
    documents: int
    chunks: int
    records: int
    repeated: int


async def judge(dsn: str, log: BrokerLog) -> Verdict:
    """Compare everything."""
    faults: dict[str, list[str]] = defaultdict(list)
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=30)
    try:
        snapshot = await read(connection)
        ledger = {
            row["event_id"]: row
            for row in await connection.fetch("SELECT event_id, state, deliveries FROM ingest_ledger")
        }
    finally:
        await connection.close()
    for key, write in log.winners.items():
        rank = snapshot.ranks.get(key)
        if rank is None or rank < write.rank:
            faults["lost"].append(f"{key}: {write.rank} is not in the index, which has {rank}")
        elif rank > write.rank:
            faults["resurrected"].append(f"{key}: {rank} is in the index and in no log")
        elif (key in snapshot.tombstones) != write.deleted:
            faults["resurrected"].append(f"{key}: deleted is {not write.deleted}")
        elif fault := content_fault(snapshot, key, write):
            faults["mixed"].append(f"{key}: {fault}")
    for key in snapshot.ranks.keys() - log.winners.keys():
        faults["resurrected"].append(f"{key} is in the index and in no log")
    for document_id in snapshot.deleted ^ log.hidden():
        faults["resurrected"].append(f"{document_id}: deleted in one of index and log")
    if snapshot.bare:
        faults["mixed"].append(f"{snapshot.bare} chunks without a vector")
    records = Counter(log.healthy.values())
    for event_id in records:
        state = ledger[event_id]["state"] if event_id in ledger else None
        if state not in ("searchable", "superseded"):
            faults["lost"].append(f"event {event_id}: the ledger says {state}")
    for write in log.winners.values():
        event_id = write.rank.event_id
        if event_id in ledger and ledger[event_id]["state"] != "searchable":
            faults["lost"].append(f"event {event_id} is the newest, the ledger says {ledger[event_id]['state']}")
    faults["dead letters"] += log.wrong_letters()
    repeated = sum(ledger[event_id]["deliveries"] - count for event_id, count in records.items() if event_id in ledger)
    return Verdict(
        faults={kind: texts for kind, texts in faults.items() if texts},
        parts=len(snapshot.ranks),
        documents=len({document_id for document_id, part in snapshot.ranks if part == MAIN_PART}),
        chunks=sum(len(texts) for numbers in snapshot.chunks.values() for texts in numbers.values()),
        records=len(log.healthy) + len(log.poison),
        repeated=repeated,
    )


async def wrong_vectors(dsn: str, embedder: str) -> list[str]:
    """Chunks whose vector is not the embedder's own of their text."""
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=60)
    try:
        await register_vector(connection)
        rows = await connection.fetch(
            "SELECT chunk_id, embed_text, embedding FROM chunks JOIN chunk_embeddings_384 USING (chunk_id)"
        )
    finally:
        await connection.close()
    wrong = []
    async with httpx.AsyncClient(base_url=embedder, timeout=60, trust_env=False) as http:
        client = EmbedderClient(http)
        for first in range(0, len(rows), 64):
            page = rows[first : first + 64]
            answer = await _embed(client, [row["embed_text"] for row in page])
            for row, vector in zip(page, answer, strict=True):
                if not np.allclose(row["embedding"].to_numpy(), vector, atol=2e-3):
                    wrong.append(f"chunk {row['chunk_id']}: a vector of other text")
    return wrong


async def _embed(client: EmbedderClient, texts: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    for _ in range(20):
        try:
            return (await client.embed(EmbedRequest(texts=texts))).vectors
        except CairnError:
            await asyncio.sleep(1)
    raise AssertionError("the embedder does not come back")
