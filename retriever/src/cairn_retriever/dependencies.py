"""What the routes are given.

Coroutine functions, for FastAPI hands plain ones to a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from cairn_retriever.adapters.postgres_reports import PostgresReports
from cairn_retriever.reranking import Searches
from cairn_retriever.vector_check import VectorCheck


@dataclass(frozen=True)
class State:
    """What lives as long as the process."""

    searcher: Searches
    reports: PostgresReports
    vectors: VectorCheck


async def state(request: Request) -> State:
    """The process's state."""
    found: State = request.app.state.cairn
    return found


async def searcher(request: Request) -> Searches:
    return (await state(request)).searcher


async def reports(request: Request) -> PostgresReports:
    return (await state(request)).reports


async def vectors(request: Request) -> VectorCheck:
    return (await state(request)).vectors


SearcherDep = Annotated[Searches, Depends(searcher)]
ReportsDep = Annotated[PostgresReports, Depends(reports)]
VectorCheckDep = Annotated[VectorCheck, Depends(vectors)]
