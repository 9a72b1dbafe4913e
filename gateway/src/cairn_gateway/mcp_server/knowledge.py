"""What the tools need."""

from __future__ import annotations

from typing import Protocol

from cairn_gateway.schemas.runbooks import RunbookView
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.api.search import SearchRequest, SearchResponse


class Knowledge(Protocol):
    """A Cairn, near or far. Raises the errors of `cairn_shared.errors`; their detail is shown."""

    async def ask(self, request: AskRequest) -> AskResponse: ...

    async def search(self, request: SearchRequest) -> SearchResponse: ...

    async def get_runbook(self, runbook_id: str) -> RunbookView:
        """The runbook as it is now, searchable yet or not.

        Raises:
            NotFound: there is none.
        """
        ...
