"""`Knowledge` of the gateway itself."""

from __future__ import annotations

from cairn_gateway.asking import Asking
from cairn_gateway.ports import Searcher
from cairn_gateway.schemas.runbooks import RunbookView
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.api.search import SearchRequest, SearchResponse
from cairn_shared.runbooks.store import RunbookStore


class OwnKnowledge:
    """The use cases behind `POST /ask`, `POST /search` and `GET /runbooks/{id}`."""

    def __init__(self, asking: Asking, searcher: Searcher, store: RunbookStore) -> None:
        self._asking = asking
        self._searcher = searcher
        self._store = store

    async def ask(self, request: AskRequest) -> AskResponse:
        return await self._asking.ask(request)

    async def search(self, request: SearchRequest) -> SearchResponse:
        return await self._searcher.search(request)

    async def get_runbook(self, runbook_id: str) -> RunbookView:
        return RunbookView.of(await self._store.get(runbook_id))
