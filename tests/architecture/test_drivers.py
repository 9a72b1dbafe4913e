"""What an error of a driver means is said once for each driver, where all who use it can import it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in ("shared", "gateway", "ingest-consumer", "embedder", "retriever", "answerer", "deploy", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if ".venv" not in path.parts and not path.name.startswith("test_")
]


@pytest.mark.parametrize(
    ("base", "home"),
    [
        (r"asyncpg\.(?:InterfaceError|InternalClientError)", "shared/src/cairn_shared/postgres.py"),
        (r"(?:pymongo\.errors\.)?PyMongoError", "shared/src/cairn_shared/mongo.py"),
    ],
)
def test_a_driver_s_own_errors_are_named_in_one_module(base: str, home: str) -> None:
    named = {str(path.relative_to(ROOT)) for path in SOURCES if re.search(base, path.read_text())}
    assert named == {home}
