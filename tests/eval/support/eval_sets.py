"""The questions: three sets, each with what answers them, divided into a half to tune on and a half to test on."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

CHECKOUT = Path(__file__).resolve().parents[3]
EVALUATION_DATA = CHECKOUT / "data" / "eval"
DEMO = CHECKOUT / "data" / "runbooks"

Half = Literal["dev", "test"]


@dataclass(frozen=True)
class Question:
    """One question. `answer` is the key of the document that answers it, None where there is none."""

    id: str
    kind: str
    text: str
    answer: str | None
    steps: frozenset[int] = frozenset()
    source: str | None = None
    """Where to look, for questions that bring their own documents."""
    elsewhere: bool = False
    """The public corpora have a page for it, though the demo runbooks have none."""

    @property
    def half(self) -> Half:
        """Fixed by the question's id alone, so that adding questions moves none."""
        return "dev" if hashlib.sha256(self.id.encode()).digest()[-1] % 2 == 0 else "test"


@dataclass(frozen=True)
class IdentifierDocument:
    """One of the documents that a row of the identifier table brings."""

    row: str
    id: str
    title: str
    body: str


def corpora() -> Path | None:
    """The folder of the public corpora: CAIRN_CORPORA, or `shared/corpora` beside the checkout."""
    named = os.environ.get("CAIRN_CORPORA")
    folder = Path(named) if named else CHECKOUT.parent / "shared" / "corpora"
    return folder if (folder / "kube-prometheus-alerts.jsonl").is_file() else None


def golden() -> list[Question]:
    """Questions about the demo runbooks, as engineers type them."""
    return [
        Question(
            row["id"],
            row["kind"],
            row["question"],
            row["runbook_id"],
            frozenset(row["steps"]),
            elsewhere=row.get("elsewhere", False),
        )
        for row in _rows(EVALUATION_DATA / "golden.jsonl")
    ]


def alerts(folder: Path) -> list[Question]:
    """What real alerts say, without their names; the answer is the page of the alert's name, in whichever corpus.

    The file names pages of the first corpus only (`runbook`); the second one has some more.
    """
    pages = {file.stem.casefold() for file in folder.rglob("*.md")}
    return [
        Question(
            row["alert"],
            "alert" if (page := row["alert"].casefold()) in pages else "unanswerable",
            without_name(f"{row['summary']} {row['description']}", row["alert"]),
            page if page in pages else None,
        )
        for row in _rows(folder / "kube-prometheus-alerts.jsonl")
    ]


def identifier_questions() -> list[Question]:
    """Look-ups of one identifier among documents that differ by a character or a prefix."""
    return [
        Question(row["id"], "identifier", row["question"], row["expect"], source=row["id"])
        for row in _rows(EVALUATION_DATA / "identifiers.jsonl")
    ]


def identifier_documents() -> list[IdentifierDocument]:
    """The documents of the identifier table."""
    return [
        IdentifierDocument(row["id"], one["id"], one["title"], one["body"])
        for row in _rows(EVALUATION_DATA / "identifiers.jsonl")
        for one in row["documents"]
    ]


_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def without_name(text: str, name: str) -> str:
    """`text` without templates and without the alert's name."""
    bare = _TEMPLATE.sub(" ", text)
    bare = re.sub(re.escape(name), " ", bare, flags=re.IGNORECASE)
    return re.sub(r"\s+", " ", bare).strip()


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)
