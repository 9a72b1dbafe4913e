"""`/users`: who may do what."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Path as InPath

from cairn_gateway.auth import new_key
from cairn_gateway.dependencies import Gateway, RequireAdmin
from cairn_gateway.model import ApiKey, User
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.people import KeyBody, KeyMade, UserBody, UserList, UserView, UserWritten
from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN

router = APIRouter(prefix="/users", tags=["users"], route_class=GuardedRoute)

UserId = Annotated[str, InPath(pattern=RUNBOOK_ID_PATTERN)]


@router.get("", response_model=UserList, responses=problems())
async def list_users(state: Gateway, _: RequireAdmin) -> UserList:
    """Everybody, with the names of their keys."""
    return UserList(users=[UserView.model_validate(asdict(user)) for user in await state.users.list()])


@router.put(
    "/{user_id}",
    response_model=UserWritten,
    responses=problems(400, 422) | {201: {"model": UserWritten, "description": "It did not exist before."}},
)
async def put_user(
    user_id: UserId, body: UserBody, response: Response, state: Gateway, who: RequireAdmin
) -> UserWritten:
    """Create or change a user; the keys stay."""
    status = await state.users.put(User(user_id, body.name, body.role, body.email, body.team))
    if status != "unchanged":
        await state.audit.note(who, "user.put", user_id, f"{status}, role {body.role.value}")
    response.status_code = 201 if status == "created" else 200
    return UserWritten.model_validate({"id": user_id, **body.model_dump(), "status": status})


@router.post("/{user_id}/keys", response_model=KeyMade, status_code=201, responses=problems(400, 404, 422))
async def make_key(user_id: UserId, body: KeyBody, state: Gateway, who: RequireAdmin) -> KeyMade:
    """A new API key. It is shown this once; only its hash is stored."""
    key = new_key()
    await state.users.add_key(user_id, ApiKey(key.id, body.label, state.clock.now()), key.hash)
    await state.audit.note(who, "user.key", user_id, f"key {key.id} made")
    return KeyMade(user_id=user_id, key_id=key.id, key=key.token)


@router.delete("/{user_id}/keys/{key_id}", status_code=204, responses=problems(404, 422))
async def remove_key(user_id: UserId, key_id: UserId, state: Gateway, who: RequireAdmin) -> None:
    """Shut a key out; other gateways follow within a second."""
    await state.users.remove_key(user_id, key_id)
    await state.audit.note(who, "user.revoke", user_id, f"key {key_id} revoked")


@router.delete("/{user_id}", status_code=204, responses=problems(404, 422))
async def remove_user(user_id: UserId, state: Gateway, who: RequireAdmin) -> None:
    """Remove a user with every key; what they did stays in the records."""
    await state.users.remove(user_id)
    await state.audit.note(who, "user.rm", user_id)
