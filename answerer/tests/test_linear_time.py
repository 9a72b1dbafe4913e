"""Pitfall 19: nothing that a model or a runbook can write makes the patterns slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from answerer_corpus import make_passage, make_shown
from growth import assert_linear

from cairn_answerer.citations import Resolver, extract
from cairn_answerer.code import find_code
from cairn_answerer.commands import commands
from cairn_answerer.errors import BadOutput
from cairn_answerer.injection import withhold
from cairn_answerer.model import DraftClaim
from cairn_answerer.parsing import parse
from cairn_answerer.placeholders import fill
from cairn_answerer.safety import classify
from cairn_answerer.verification import Checker
from cairn_answerer.verification.quantities import quantities
from cairn_answerer.verification.statements import Statement, statements, taken_apart
from cairn_answerer.verification.tokens import tokens

RESOLVER = Resolver(make_shown(make_passage(1)))
SIZE = 100_000
HOSTILE = {
    "digits": "1" * SIZE,
    "brackets": "[" * SIZE,
    "closed brackets": "[" * (SIZE // 2) + "]" * (SIZE // 2),
    "citations": "[k7mq]" * (SIZE // 6),
    "steps": "[a, Step 1" * (SIZE // 10),
    "step numbers": "[x, Steps " + "1," * (SIZE // 2) + "]",
    "backticks": "`" * SIZE,
    "tick pairs": "` `` " * (SIZE // 5),
    "fences": "```\n" * (SIZE // 4),
    "braces": "{" * SIZE,
    "quotes": '{"' * (SIZE // 2),
    "backslashes": "\\" * SIZE,
    "blanks": " " * SIZE,
    "lines": "\n" * SIZE,
    "angles": "<a" * (SIZE // 2),
    "dots": "a." * (SIZE // 2),
    "slashes": "/a" * (SIZE // 2),
    "hyphens": "-a" * (SIZE // 2),
    "dollars": "$a" * (SIZE // 2),
    "substitutions": "$(" * (SIZE // 2),
    "heredocs": "cat <<EOF\n" * (SIZE // 10),
    "numbers": "1,000," * (SIZE // 6),
    "ignore": "ignore all " * (SIZE // 11),
    "awk prints": "awk '" + "print " * (SIZE // 6),
    "calls": "SELECT " + "f( " * (SIZE // 3),
    "dotted names": "psql -c 'SELECT " + "a." * (SIZE // 2),
    "one long name": "psql -c 'SELECT " + "a" * SIZE,
    "do if": "do if for " * (SIZE // 10),
    "negations": "do not drop " * (SIZE // 12),
    "nothing but not": "not " * (SIZE // 4),
    "orders": "first a before bb then " * (SIZE // 23),
    "joints": "xx and yy, because " * (SIZE // 19),
    "words": "measure the lag " * (SIZE // 16),
    "commands in spans": "`pg_ctl` `-D` " * (SIZE // 14),
}


def parsed(text: str) -> None:
    with suppress(BadOutput):
        parse(text, RESOLVER)


def looked_at(statement: Statement) -> object:
    return (
        statement.negations, statement.orders, statement.pairs, statement.parts, statement.affirmed,
        statement.alternatives, taken_apart(statement),
    )  # fmt: skip


WORK: dict[str, Callable[[str], object]] = {
    "parse": parsed,
    "extract": lambda text: extract(text, RESOLVER),
    "resolve": RESOLVER.resolve,
    "code": find_code,
    "tokens": tokens,
    "statements": lambda text: [looked_at(statement) for statement in statements(tokens(text))],
    "quantities": lambda text: list(quantities(text)),
    "fill": lambda text: fill(text, {"a": "b"}),
    "withhold": lambda text: withhold(text[:12_000]),
    "classify": classify,
    "check": lambda text: Checker(RESOLVER, {}).check(DraftClaim(text[:2000], ("k1mq",))),
    "evidence": lambda text: Checker(Resolver(make_shown(make_passage(1, text[:6000]))), {"a": "b"}).check(
        DraftClaim("Measure the lag 5 minutes.", ("k1mq",))
    ),
    "commands": lambda text: commands(f"```sh\n{text[:20_000]}\n```", {}),
    "sql commands": lambda text: commands(f"```sql\n{text[:20_000]}\n```", {}),
    "redis": lambda text: classify(text, "redis"),
    "sql": lambda text: classify(text, "sql"),
    "mongosh": lambda text: classify(text, "mongosh"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    for name, work in WORK.items():
        with named(name):
            assert_linear(lambda size, work=work: work(text[:size]), len(text))  # type: ignore[misc]


@contextmanager
def named(name: str) -> Iterator[None]:
    """Say which work it was."""
    try:
        yield
    except AssertionError as exc:
        exc.add_note(name)
        raise
