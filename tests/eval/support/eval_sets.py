"""The questions: three sets, each with what answers them, divided into a half to tune on and a half to test on."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
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
    origin: str | None = None
    """What it is a variant of, where it is one."""

    @property
    def half(self) -> Half:
        """Fixed by the question's id alone, or its origin's, so that adding questions moves none."""
        return "dev" if hashlib.sha256((self.origin or self.id).encode()).digest()[-1] % 2 == 0 else "test"


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


def pasted() -> list[Question]:
    """Lines of logs as they are pasted at 3 a.m.: among what nobody asked about. Each line in every wrapping."""
    return [
        Question(f"{row['id']} {kind}", kind, wrap(row["line"]), row["runbook_id"], origin=row["id"])
        for row in _rows(EVALUATION_DATA / "pasted.jsonl")
        for kind, wrap in WRAPPINGS.items()
    ]


def _amid_a_log(line: str) -> str:
    """The line in the middle of a hundred others of an application."""
    routes = ("orders", "carts", "users/381", "payments", "health")
    lines = [
        f"2026-11-30T03:{number // 60:02}:{number % 60:02}.{137 * number % 1000:03}Z INFO http "
        f'method=GET path="/api/v1/{routes[number % 5]}" status={(200, 200, 304)[number % 3]} ms={7 * number % 90}'
        for number in range(100)
    ]
    lines[55] = f"2026-11-30T03:00:55.012Z ERROR db query failed err={json.dumps(line)}"
    return "\n".join(lines)


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "bare": lambda line: line,
    "syslog": lambda line: f"Nov 30 03:12:44 prod-db-7 app[2291]: {line}",
    "pod": lambda line: f"[checkout-api-7d9f8b6c5-x2x9k] {line}",
    "json": lambda line: json.dumps(
        {"level": "error", "service": "checkout", "host": "ip-10-0-3-4", "trace_id": "4bf92f3577b34da6", "msg": line}
    ),
    "chat": lambda line: f"hey, since 10 min on srv12, customer ACME is shouting, plz help asap: {line} thx @john",
    "after a request": lambda line: f"INFO GET /api/v1/orders 200 12ms\n{line}",
    "in a traceback": lambda line: (
        'Traceback (most recent call last):\n  File "/app/checkout/db.py", line 88, in connect\n'
        f"    return pool.acquire(timeout=5)\ncheckout.errors.StoreError: {line}"
    ),
    "in a log": _amid_a_log,
}


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
