"""Pitfall 19: nothing that a model or a runbook can write makes the patterns slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from growth import assert_linear

from cairn_answerer.code import find_code
from cairn_answerer.commands import commands
from cairn_answerer.errors import BadOutput
from cairn_answerer.injection import withheld_stretches
from cairn_answerer.leads import Known, admitted
from cairn_answerer.named import _found
from cairn_answerer.placeholders import fill
from cairn_answerer.plans import parse
from cairn_answerer.safety import classify
from cairn_answerer.sentences import sentence_ends
from cairn_answerer.units import units_of

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
    "sentences": "Aa. " * (SIZE // 4),
    "sentences without end": 'Aa.)"' * (SIZE // 5),
    "references": "step 3 and 4, " * (SIZE // 14),
    "items": "- a\n" * (SIZE // 4),
    "nested items": "".join(" " * (2 * depth) + "- a\n" for depth in range(300)),
    "rows": "| a | b |\n" * (SIZE // 10),
    "quotations": "> a\n\n" * (SIZE // 5),
    "units": '{"step": "k1mq", "units": [' + "1, " * (SIZE // 3),
    "words": "measure the lag " * (SIZE // 16),
    "commands in spans": "`pg_ctl` `-D` " * (SIZE // 14),
}


def parsed(text: str) -> None:
    with suppress(BadOutput):
        parse(text, ["k1mq", "k7mq"])


WORK: dict[str, Callable[[str], object]] = {
    "parse": parsed,
    "code": find_code,
    "fill": lambda text: fill(text, {"a": "b"}),
    "withhold": lambda text: withheld_stretches(text[:12_000]),
    "classify": classify,
    "sentences": lambda text: list(sentence_ends(text)),
    "units": lambda text: units_of.__wrapped__(text[:20_000]),
    "named": lambda text: list(_found(text)),
    "lead": lambda text: admitted(text[:200], text, Known(text, (text,))),
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
