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
SELECT {STATE_COLUMNS}, CASE WHEN $3 THEN pg_export_snapshot() END AS snapshot,
       set_config('hnsw.ef_search', $1, true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.max_scan_tuples', $2, true), set_config('jit', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true)
FROM corpus_state
"""  # noqa: S608 - columns written above


@dataclass(frozen=True)
class ScanSettings:
    """Of the HNSW index: how many neighbours to keep in mind, and when to give up on filters."""

    ef_search: int
    max_scan_tuples: int


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

    async def begin(self, *, like: str | None = None, export: bool = False) -> Any:
        """Begin, on the snapshot `like` of another transaction if given; the row of `corpus_state`.

        With `export` the row's `snapshot` is what another transaction can be `like`, until this one ends.
        """
        if self._begun:
            return None
        self._begun = True
        # The name comes from PostgreSQL, and this statement takes no parameter.
        await self._connection.execute(f"{BEGIN}; SET TRANSACTION SNAPSHOT '{like}'" if like else BEGIN)
        settings = (str(self._settings.ef_search), str(self._settings.max_scan_tuples))
        return await self._connection.fetchrow(STATE, *settings, export)

    async def fetch(self, text: str, *args: Any) -> list[Any]:
        """The rows of a query."""
        rows: list[Any] = await self._connection.fetch(text, *args)
        return rows

    async def end(self) -> None:
        """Nothing was written, so there is nothing to commit."""
        if self._begun:
            await self._connection.execute("ROLLBACK")
