from __future__ import annotations

import sys
from pathlib import Path

import pytest
import structlog

ROOT = Path(__file__).parents[2]
# Beside the support of these tests, the consumer's own fakes and its model of the index.
sys.path[:0] = [str(Path(__file__).parent / "support"), str(ROOT / "ingest-consumer/tests/support")]


@pytest.fixture(autouse=True, scope="session")
def _quiet_logs() -> None:
    """A broker that is away is what these tests are about; the table says it."""
    structlog.configure(
        processors=[structlog.processors.KeyValueRenderer()], logger_factory=structlog.ReturnLoggerFactory()
    )
