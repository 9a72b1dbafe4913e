"""The stack that `make up` started; it is never stopped for good."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
from composed import ROOT, Composed, read_env


@pytest.fixture(scope="session")
def composed() -> Iterator[Composed]:
    env = read_env(ROOT / ".env")
    url = os.environ.get("CAIRN_COMPOSE_URL", "http://127.0.0.1:8000")
    headers = {"authorization": f"Bearer {env['CAIRN_API_KEY']}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
        yield Composed(url, env, http)
