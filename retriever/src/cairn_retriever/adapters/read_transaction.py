"""A read-only transaction with the settings of a search; and a second one that sees exactly the same.

The settings end with the transaction, so that the next checkout of the connection has the defaults. Starting parallel
workers takes longer than what they would do here, and under load they are not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cairn_shared.postgres import Connection

BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

STATE_COLUMNS = """epoch, fingerprint, chunks, average_length, refreshed_at IS NOT NULL AS refreshed, thresholds,
       (SELECT table_name FROM embedding_spaces s WHERE s.fingerprint = corpus_state.fingerprint) AS vectors"""

STATE = f"""
SELECT {STATE_COLUMNS}, CASE WHEN $1 THEN pg_export_snapshot() END AS snapshot FROM corpus_state
"""  # noqa: S608 - columns written above


@dataclass(frozen=True)
class ScanSettings:
    """Of the HNSW index: how many neighbours to keep in mind, and when to give up on filters."""

    ef_search: int
    max_scan_tuples: int

    def statements(self) -> str:
        """As settings of one transaction."""
        return (
            f"SET LOCAL hnsw.ef_search = {self.ef_search:d}; SET LOCAL hnsw.max_scan_tuples = {self.max_scan_tuples:d};"
            " SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL jit = off;"
            " SET LOCAL max_parallel_workers_per_gather = 0"
        )


async def leave_clean(connection: Connection) -> None:
    """Make a connection ready for its next user. Searches set nothing that outlives their transaction."""
    if connection.is_in_transaction():
        await connection.reset()


class ReadTransaction:
    """One connection in one transaction. `begin` before, `end` after everything else."""

    def __init__(self, connection: Connection, settings: ScanSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._begun = False

    async def begin(self, *, like: str | None = None) -> None:
        """Begin in one round trip, on the snapshot `like` of another transaction if given; again is nothing."""
        if self._begun:
            return
        self._begun = True
        # The name comes from PostgreSQL, and SET takes no parameters.
        snapshot = f"SET TRANSACTION SNAPSHOT '{like}'; " if like else ""
        await self._connection.execute(f"{BEGIN}; {snapshot}{self._settings.statements()}")

    async def state(self, *, export: bool) -> Any:
        """The row of `corpus_state`; with `export` its `snapshot` is what another transaction can be `like`."""
        return await self._connection.fetchrow(STATE, export)

    async def fetch(self, text: str, *args: Any) -> list[Any]:
        """The rows of a query."""
        rows: list[Any] = await self._connection.fetch(text, *args)
        return rows

    async def end(self) -> None:
        """Nothing was written, so there is nothing to commit."""
        if self._begun:
            await self._connection.execute("ROLLBACK")
