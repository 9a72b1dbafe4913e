"""Requests made up from the API's own description: whatever comes, the gateway never answers 500."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import SecretStr

from cairn_gateway.settings import GatewaySettings

Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]
SECRET = "fuzz"
FACTOR = int(os.environ.get("FUZZ", "1"))
"""How many times as many examples: `make fuzz`."""

LEAKS = re.compile(rb"Traceback|cairn_[a-z]+/|site-packages|\.py\b|mongodb://|postgresql://")
schemathesis.serializer.alias("application/x-ndjson", "text/plain")


def signed(path: str, body: bytes) -> dict[str, str]:
    """The proof of a webhook, so that what is behind it is reached."""
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    if not path.startswith("/webhooks/") or path == "/webhooks/logs":
        return {}
    return {
        "x-hub-signature-256": f"sha256={digest}",
        "x-hub-signature": f"sha256={digest}",
        "x-gitlab-token": SECRET,
        "x-pagerduty-signature": f"v1={digest}",
        **({"authorization": f"Bearer {SECRET}"} if path == "/webhooks/alertmanager" else {}),
    }


def fuzz(url: str, key: str, examples: int) -> tuple[dict[str, set[int]], list[str]]:
    """The statuses of every operation, and what was answered with 500 or with what is nobody's business."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    seen: dict[str, set[int]] = {}
    broken: list[str] = []
    with requests.Session() as session:
        session.trust_env = False
        for result in schema.get_all_operations():
            operation = cast("Any", result).ok()
            if operation.path in {"/metrics", "/health", "/health/ready"}:
                continue

            @settings(
                max_examples=examples * FACTOR,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def run(case: Any) -> None:
                sent = case.as_transport_kwargs(base_url=url)
                prepared = session.prepare_request(requests.Request(**sent))
                prepared.headers["authorization"] = f"Bearer {key}"
                body = prepared.body or b""
                raw = body if isinstance(body, bytes) else str(body).encode()
                prepared.headers.update(signed(case.path, raw))
                answer = session.send(prepared, timeout=20, stream=True)
                with answer:
                    seen.setdefault(f"{case.method} {case.path}", set()).add(answer.status_code)
                    told = answer.raw.read(4096) if answer.status_code >= 400 else b""
                    if answer.status_code == 500 or LEAKS.search(told):
                        broken.append(f"{case.method} {prepared.url} {raw[:300]!r} {told[:300]!r}")

            run()
    return seen, broken


@pytest.mark.slow
@pytest.mark.parametrize(("role", "examples"), [("admin", 8), ("operator", 1), ("editor", 1), ("reader", 1)])
async def test_nothing_that_the_description_allows_ends_in_500_or_leaks(
    start_gateway: Start, gateway_settings: GatewaySettings, role: str, examples: int
) -> None:
    secret = SecretStr(SECRET)
    names = [
        *("github_webhook_secret", "gitlab_webhook_token", "jira_webhook_secret"),
        *("alertmanager_token", "pagerduty_webhook_secret"),
    ]
    configured = gateway_settings.model_copy(
        update={**dict.fromkeys(names, secret), "inbox": "always", "rate_limit_per_minute": 0}
    )
    async with start_gateway(configured) as client:
        await client.put("/users/fuzz", json={"name": "Fuzz", "role": role})
        key = (await client.post("/users/fuzz/keys", json={})).json()["key"]
        seen, broken = await asyncio.to_thread(fuzz, str(client.base_url).rstrip("/"), key, examples)
    assert broken == []
    print({operation: sorted(statuses) for operation, statuses in sorted(seen.items())})
    assert len(seen) > 30
    if role == "admin":
        for operation in ("POST /webhooks/github", "POST /events", "POST /repos"):
            assert seen[operation] & {400, 422}, seen[operation]
    if role == "reader":
        for operation in ("DELETE /runbooks/{runbook_id}", "GET /dlq", "POST /dlq/replays", "GET /users", "GET /audit"):
            assert seen[operation] <= {403, 422}, (operation, seen[operation])
    assert 401 not in set().union(*seen.values())
