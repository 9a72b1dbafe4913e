from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import structlog
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

sys.path.insert(0, str(Path(__file__).parent / "support"))
# A busy machine is no failure: pytest-timeout bounds a test as a whole.
hypothesis.settings.register_profile("cairn", deadline=None)
hypothesis.settings.load_profile("cairn")

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool


@pytest.fixture(autouse=True, scope="session")
def _quiet_logs() -> None:
    """Failures are provoked by the hundred here; rendering each with its locals takes longer than the tests."""
    structlog.configure(
        processors=[structlog.processors.KeyValueRenderer()], logger_factory=structlog.ReturnLoggerFactory()
    )


@pytest.fixture
async def pool(postgres_dsn: str) -> AsyncIterator[Pool]:
    from cairn_shared.postgres import open_pool
    from cairn_shared.settings import PostgresSettings

    async with open_pool(PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0), "test") as opened:
        yield opened


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()
