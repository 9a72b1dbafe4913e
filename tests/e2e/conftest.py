"""One stack for all end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from whole_stack import Stack, running_stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Started once."""
    with running_stack(tmp_path_factory.mktemp("e2e") / "home") as running:
        yield running
