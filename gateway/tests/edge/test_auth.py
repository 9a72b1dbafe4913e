"""Who may do what; and how long a key is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from cairn_gateway.auth import Authenticator, AuthPolicy, hash_key, new_key
from cairn_gateway.model import Principal, Role
from cairn_gateway.settings import GatewaySettings
from cairn_shared import mongo
from cairn_shared.errors import Unauthenticated, Unavailable

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Start, StillClock

STEPS = {"title": "T", "steps": ["Look."]}
ITEMS = {"items": [{"path": "a.md", "markdown": "# T\n\n1. x\n"}]}
RECORD = {"runbook_id": "a", "step": 1, "outcome": "worked"}
PAST = {**RECORD, "user_id": "u", "started_at": "2026-01-01T00:00:00Z"}

ROUTES: list[tuple[str, str, object, Role]] = [
    ("GET", "/runbooks", None, Role.READER),
    ("PUT", "/runbooks/a", STEPS, Role.EDITOR),
    ("GET", "/runbooks/a", None, Role.READER),
    ("GET", "/runbooks/a/revisions", None, Role.READER),
    ("GET", "/runbooks/a/revisions/1", None, Role.READER),
    ("GET", "/runbooks/a/linked-from", None, Role.READER),
    ("POST", "/runbooks/preview", STEPS, Role.READER),
    ("POST", "/runbooks/import", ITEMS, Role.EDITOR),
    ("POST", "/ask", {"question": "Why?"}, Role.READER),
    ("POST", "/search", {"query": "why"}, Role.READER),
    ("POST", "/ingest/states", {"event_ids": []}, Role.READER),
    ("POST", "/executions", RECORD, Role.READER),
    ("PUT", "/executions/e", PAST, Role.EDITOR),
    ("GET", "/executions", None, Role.READER),
    ("POST", "/feedback", {"verdict": "wrong", "request_id": "r-1"}, Role.READER),
    ("GET", "/feedback", None, Role.OPERATOR),
    ("GET", "/status", None, Role.READER),
    ("GET", "/admin/indexes", None, Role.OPERATOR),
    ("POST", "/verify", {}, Role.OPERATOR),
    ("GET", "/users", None, Role.ADMIN),
    ("PUT", "/users/someone", {"name": "S"}, Role.ADMIN),
    ("POST", "/users/someone/keys", {}, Role.ADMIN),
    ("DELETE", "/runbooks/a", None, Role.EDITOR),
]


async def key_of(client: httpx.AsyncClient, role: Role) -> str:
    await client.put(f"/users/{role.value}", json={"name": role.value, "role": role.value})
    return str((await client.post(f"/users/{role.value}/keys", json={})).json()["key"])


async def test_each_route_asks_for_its_role(client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    keys = {role: await key_of(client, role) for role in Role}
    for method, path, body, needed in ROUTES:
        with subtests.test(f"{method} {path}"):
            for bad in ({"authorization": ""}, {"authorization": "Bearer wrong"}, {"authorization": "Basic eDp5"}):
                refused = await client.request(method, path, json=body, headers=bad)
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"] == "Bearer"
            for role in Role:
                headers = {"authorization": f"Bearer {keys[role]}"}
                answer = await client.request(method, path, json=body, headers=headers)
                if role.covers(needed):
                    assert answer.status_code < 300 or answer.status_code == 404, (role, answer.text)
                else:
                    assert answer.status_code == 403, (role, answer.text)
                    assert f"needs the role {needed.value}" in answer.json()["detail"]


async def test_the_table_of_roles_is_complete(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    open_paths = {"/health", "/health/ready", "/metrics"}
    described = {
        (method.upper(), path.replace("{runbook_id}", "a").replace("{revision}", "1"))
        for path, methods in paths.items()
        for method in methods
        if path not in open_paths
        and path.split("/")[1] in {"runbooks", "ask", "search", "feedback", "status", "verify", "admin"}
    }
    assert described == {
        (method, path) for method, path, _, _ in ROUTES if path.split("/")[1] not in {"users", "executions", "ingest"}
    }


async def test_health_and_metrics_need_no_key(client: httpx.AsyncClient) -> None:
    for path in ("/health", "/health/ready", "/metrics"):
        assert (await client.get(path, headers={"authorization": ""})).status_code == 200


async def test_the_key_may_come_in_either_header(client: httpx.AsyncClient) -> None:
    key = await key_of(client, Role.READER)
    answer = await client.get("/runbooks", headers={"authorization": "", "x-api-key": key})
    assert answer.status_code == 200


async def test_a_key_is_shown_once_and_stored_as_a_hash_and_can_be_shut_out(
    start_gateway: Start, gateway_settings: GatewaySettings, database: mongo.Database
) -> None:
    settings = gateway_settings.model_copy(update={"auth_cache_seconds": 0.0})
    async with start_gateway(settings) as client:
        await client.put("/users/jonas", json={"name": "Jonas", "role": "editor", "email": "jonas@example.com"})
        made = (await client.post("/users/jonas/keys", json={"label": "laptop"})).json()
        stored = await database["users"].find_one({"_id": "jonas"})
        assert stored is not None
        assert made["key"] not in str(stored)
        assert stored["keys"][0]["hash"] == hash_key(made["key"])
        listed = (await client.get("/users")).json()["users"][0]
        assert listed["keys"][0]["label"] == "laptop"
        assert hash_key(made["key"]) not in str(listed)
        headers = {"authorization": f"Bearer {made['key']}"}
        assert (await client.get("/runbooks", headers=headers)).status_code == 200
        assert (await client.delete(f"/users/jonas/keys/{made['key_id']}")).status_code == 204
        assert (await client.get("/runbooks", headers=headers)).status_code == 401


async def test_putting_a_user_again_says_what_changed_and_keeps_the_keys(client: httpx.AsyncClient) -> None:
    body = {"name": "Mira", "role": "admin", "email": "mira@example.com", "team": "dba"}
    key = (await client.put("/users/mira", json=body), await client.post("/users/mira/keys", json={}))[1].json()["key"]
    assert (await client.put("/users/mira", json=body)).json()["status"] == "unchanged"
    assert (await client.put("/users/mira", json=body | {"team": "sre"})).json()["status"] == "changed"
    assert (await client.get("/users", headers={"authorization": f"Bearer {key}"})).status_code == 200


async def test_over_the_limit_a_key_is_told_when_to_come_back_and_others_are_not_touched(
    start_gateway: Start, gateway_settings: GatewaySettings
) -> None:
    settings = gateway_settings.model_copy(update={"rate_limit_per_minute": 6, "rate_limit_burst": 3})
    async with start_gateway(settings) as client:
        answers = [await client.get("/runbooks") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 10
        assert answers[3].headers["content-type"] == "application/problem+json"
        assert (await client.get("/health")).status_code == 200


async def test_without_redis_nothing_is_limited_and_nothing_fails(
    start_gateway: Start, gateway_settings: GatewaySettings
) -> None:
    settings = GatewaySettings.model_validate(
        gateway_settings.model_dump()
        | {"redis_url": "redis://127.0.0.1:1/0", "rate_limit_per_minute": 1, "rate_limit_burst": 1}
    )
    async with start_gateway(settings) as client:
        assert [(await client.get("/runbooks")).status_code for _ in range(3)] == [200, 200, 200]
        status = (await client.get("/status")).json()
        assert (status["status"], status["dependencies"]["redis"]) == ("degraded", "ConnectionError")
        assert (await client.get("/health/ready")).status_code == 200


class Directory:
    """Keys by hash; counts how often it is asked."""

    def __init__(self, known: dict[str, Principal]) -> None:
        self.known = known
        self.away = False
        self.asked = 0

    async def find_key(self, key_hash: str) -> Principal | None:
        self.asked += 1
        if self.away:
            raise Unavailable("mongo")
        return self.known.get(key_hash)


async def test_a_good_key_is_believed_for_a_while_and_longer_while_mongodb_is_away(clock: StillClock) -> None:
    key, owner = new_key(), Principal("mira", Role.READER, "k")
    directory = Directory({key.hash: owner})
    authenticator = Authenticator(directory, None, clock, AuthPolicy(fresh=5, stale=60))
    assert await authenticator.authenticate(key.token) == owner
    assert await authenticator.authenticate(key.token) == owner
    assert directory.asked == 1
    directory.away = True
    clock.advance(10)
    assert await authenticator.authenticate(key.token) == owner
    assert await authenticator.authenticate(key.token) == owner
    assert directory.asked == 2, "it is not asked for each request while it is away"
    with pytest.raises(Unavailable):
        await authenticator.authenticate("never seen")
    clock.advance(60)
    with pytest.raises(Unavailable):
        await authenticator.authenticate(key.token)
    directory.away = False
    directory.known.clear()
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(key.token)


async def test_the_bootstrap_key_works_without_mongodb_and_only_if_set(clock: StillClock) -> None:
    directory = Directory({})
    directory.away = True
    authenticator = Authenticator(directory, "bootstrap-key-1234", clock, AuthPolicy())
    assert (await authenticator.authenticate("bootstrap-key-1234")).role is Role.ADMIN
    unset = Authenticator(Directory({}), None, clock, AuthPolicy())
    for token in ("", None, "bootstrap-key-1234"):
        with pytest.raises(Unauthenticated):
            await unset.authenticate(token)
