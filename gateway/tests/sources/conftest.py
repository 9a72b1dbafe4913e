"""Deliveries as the routes make them, and the golden payloads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cairn_gateway.sources.model import Delivery, RunbookRepositories

PAYLOADS = Path(__file__).parent / "payloads"
RECEIVED = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)

MakeDelivery = Callable[..., Delivery]


@pytest.fixture
def delivery() -> MakeDelivery:
    """`delivery(body, **headers)`: `_` in a header's name stands for `-`."""

    def make(body: bytes | str, *, received_at: datetime = RECEIVED, **headers: str) -> Delivery:
        raw = body.encode() if isinstance(body, str) else body
        return Delivery({name.replace("_", "-"): value for name, value in headers.items()}, raw, received_at)

    return make


@pytest.fixture
def golden() -> Callable[[str], bytes]:
    """The raw bytes of a golden payload, `github/push` and so on."""

    def read(name: str) -> bytes:
        return (PAYLOADS / f"{name}.json").read_bytes()

    return read


@pytest.fixture
def repositories() -> RunbookRepositories:
    return RunbookRepositories(
        {
            ("127.0.0.1:3000/ops/runbooks", "main"): ("ops",),
            ("github.com/acme/payments", "main"): ("payments", "payments-docs"),
            ("gitlab.com/acme/payments", "main"): ("gl",),
        }
    )
