"""One stack for all end-to-end tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from whole_stack import Stack, running_stack


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """Started once in a process.

    Not in a tmp_path: every pytest session closes the folder above those again, and PostgreSQL, which as root runs
    as a user of its own, would find itself locked out.
    """
    with tempfile.TemporaryDirectory(prefix="cairn-e2e-") as folder, running_stack(Path(folder) / "home") as running:
        yield running


def of_the_stack(item: pytest.Item) -> bool:
    """Whether it is one of this folder's tests of the whole stack."""
    return item.path.parent == Path(__file__).parent and "stack" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of the stack: they are longest, and a worker that has some has its stack for all of them."""
    items.sort(key=lambda item: not of_the_stack(item))
