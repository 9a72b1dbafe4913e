"""What the routes are given: the state of the app, and who asks.

All of these are coroutine functions, for FastAPI hands plain ones to a thread: under load each costs a wait for one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from cairn_gateway.accept import Accepter
from cairn_gateway.adapters.mongo_audit import MongoAudit
from cairn_gateway.adapters.mongo_plans import MongoPlans
from cairn_gateway.adapters.mongo_questions import MongoQuestions
from cairn_gateway.adapters.mongo_records import MongoRecords
from cairn_gateway.adapters.mongo_statistics import MongoStatistics
from cairn_gateway.adapters.mongo_users import MongoUsers
from cairn_gateway.arrivals import Arrivals
from cairn_gateway.asking import Asking
from cairn_gateway.auth import Authenticator
from cairn_gateway.caller import Caller, caller
from cairn_gateway.dlq.workbench import Workbench
from cairn_gateway.intake import Intake
from cairn_gateway.mcp_server.endpoint import ToolEndpoint
from cairn_gateway.model import Principal, Role
from cairn_gateway.overview import Overview
from cairn_gateway.ports import Embedder, Index, Limiter, Receipts, Searcher, Settlements, Spool
from cairn_gateway.reconcile import Reconciler
from cairn_gateway.repositories import Repositories
from cairn_gateway.repository_verify import RepositoryVerifier
from cairn_shared.clock import Clock
from cairn_shared.errors import Forbidden
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.runbooks.store import RunbookStore


@dataclass(frozen=True)
class State:
    """Everything the routes use; made once, in the lifespan."""

    clock: Clock
    arrivals: Arrivals
    store: RunbookStore
    users: MongoUsers
    executions: MongoRecords
    feedback: MongoRecords
    plans: MongoPlans
    spools: tuple[Spool, ...]
    receipts: Receipts
    index: Index
    searcher: Searcher
    settlements: Settlements
    asking: Asking
    embedder: Embedder | None
    tools: ToolEndpoint
    accepter: Accepter
    intake: Intake
    repositories: Repositories
    repository_verifier: RepositoryVerifier
    hosts: Hosts
    reconciler: Reconciler
    overview: Overview
    workbench: Workbench
    audit: MongoAudit
    questions: MongoQuestions
    statistics: MongoStatistics
    authenticator: Authenticator
    limiter: Limiter


async def get_state(request: Request) -> State:
    """The state of this app."""
    return cast("State", request.app.state.gateway)


Gateway = Annotated[State, Depends(get_state)]

_bearer = HTTPBearer(auto_error=False, description="An API key.")
_header = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same key in another header.")


async def principal_of(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    __: Annotated[str | None, Security(_header)],
) -> Principal:
    """Who asks; the schemes are there for the API's description."""
    return await authenticate(request)


async def authenticate(request: Request) -> Principal:
    """Who asks, and within which limit; once for a request, however often it is wanted.

    Raises:
        Unauthenticated: no key, or a wrong one. TooManyRequests: over the limit, or too many wrong keys.
    """
    known = getattr(request.state, "principal", None)
    if known is not None:
        return cast("Principal", known)
    state = await get_state(request)
    bearer = await _bearer(request)
    address = request.client.host if request.client else ""
    key = bearer.credentials if bearer else await _header(request)
    principal = await state.authenticator.authenticate(key, address)
    await state.limiter.check(principal)
    request.state.principal = principal
    caller.set(Caller(principal.user_id, principal.key_id, request.url.path))
    return principal


def require(role: Role) -> Callable[[Principal], Coroutine[Any, Any, Principal]]:
    """A dependency that lets through whoever has at least `role`."""

    async def check(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
        if not principal.role.covers(role):
            raise Forbidden(f"this needs the role {role.value}; the key has {principal.role.value}")
        return principal

    return check


RequireReader = Annotated[Principal, Depends(require(Role.READER))]
RequireEditor = Annotated[Principal, Depends(require(Role.EDITOR))]
RequireOperator = Annotated[Principal, Depends(require(Role.OPERATOR))]
RequireAdmin = Annotated[Principal, Depends(require(Role.ADMIN))]


async def get_accepter(state: Gateway) -> Accepter:
    """For the routes of sources."""
    return state.accepter


Accepting = Annotated[Accepter, Depends(get_accepter)]
