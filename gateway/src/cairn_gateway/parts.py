"""Which parts of Cairn are up: what the status page asks, also those that only other parts talk to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import httpx

from cairn_shared.errors import CairnError, Unavailable
from cairn_shared.health import Check

TIMEOUT = 2.0
"""Seconds for one answer of a part."""


class NotKnown(CairnError):
    """Nobody can be asked about it now."""


def answers_ready(client: httpx.AsyncClient, name: str) -> Check:
    """Whether the process `name` says that it can do its work."""

    async def check() -> None:
        try:
            response = await client.get("/health/ready", timeout=TIMEOUT)
        except httpx.HTTPError as exc:
            raise Unavailable(name) from exc
        if response.status_code != 200:
            raise Unavailable(name)

    return check


def behind(name: str, clients: Sequence[httpx.AsyncClient]) -> Check:
    """Whether `name` is up, as those say whose readiness needs it; the first that answers is believed."""

    async def check() -> None:
        for client in clients:
            try:
                response = await client.get("/health/ready", timeout=TIMEOUT / len(clients))
            except httpx.HTTPError:
                continue
            if response.status_code == 200:
                return
            failures = _failures(response)
            if failures is not None:
                if name in failures:
                    raise Unavailable(name)
                return
        raise NotKnown(f"nobody can say how {name} is")

    return check


def _failures(response: httpx.Response) -> Mapping[str, object] | None:
    """What a process that is not ready waits for; None: it does not say."""
    try:
        problem = response.json()
    except ValueError:
        return None
    failures = problem.get("failures") if isinstance(problem, dict) else None
    return failures if isinstance(failures, dict) else None
