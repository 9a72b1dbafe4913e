"""What the documents promise is there: links, make targets, commands; and no module is a burden to read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    path
    for path in ROOT.rglob("*.md")
    if not {".venv", ".cairn", "runbooks", "node_modules", ".pytest_cache"} & set(path.relative_to(ROOT).parts)
]
LONGEST = 360
"""Lines of a module. Past 300 ask what it mixes; past this, divide it."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL))
    broken = [
        target
        for target in targets
        if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists()
    ]
    assert not broken


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for path in DOCUMENTS for name in re.findall(r"`make ([a-z-]+)", path.read_text())}
    assert named <= targets


def test_every_command_that_the_readme_names_exists() -> None:
    """`cairn X` and `cairn-local X` in code spans, against the programs' own help."""
    text = (ROOT / "README.md").read_text()
    for program in ("cairn", "cairn-local"):
        done = subprocess.run(
            [str(Path(sys.executable).parent / program), "--help"], capture_output=True, text=True, check=True
        )
        for command in set(re.findall(rf"`{program} ([a-z][a-z-]*)", text)):
            assert re.search(rf"\b{re.escape(command)}\b", done.stdout), f"{program} {command}"


def test_no_module_is_a_burden_to_read() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in ("shared", "gateway", "ingest-consumer", "embedder", "retriever", "answerer", "deploy")
        for path in (ROOT / folder).rglob("src/**/*.py")
        if (lines := len(path.read_text().splitlines())) > LONGEST
    }
    assert not long
