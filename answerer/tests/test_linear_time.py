"""Pitfall 19: nothing that a model or a runbook can write makes the patterns slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from answerer_fakes import make_passage, make_shown

from cairn_answerer.citations import Resolver, extract
from cairn_answerer.code import find_code
from cairn_answerer.commands import commands
from cairn_answerer.errors import BadOutput
from cairn_answerer.evidence import quantities
from cairn_answerer.injection import withhold
from cairn_answerer.language import clauses, spoken
from cairn_answerer.model import DraftClaim
from cairn_answerer.parsing import parse
from cairn_answerer.placeholders import fill
from cairn_answerer.safety import classify
from cairn_answerer.verification import Checker

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
    "do if": "do if for " * (SIZE // 10),
}
LIMIT = 2.0
"""Seconds; a quadratic pattern needs many."""


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    def parsed() -> None:
        with suppress(BadOutput):
            parse(text, RESOLVER)

    work: dict[str, Callable[[], object]] = {
        "parse": parsed,
        "extract": lambda: extract(text, RESOLVER),
        "resolve": lambda: RESOLVER.resolve(text),
        "code": lambda: find_code(text),
        "clauses": lambda: list(clauses(spoken(text[:12_000]))),
        "quantities": lambda: list(quantities(text)),
        "fill": lambda: fill(text, {"a": "b"}),
        "withhold": lambda: withhold(text[:12_000]),
        "classify": lambda: classify(text),
        "check": lambda: Checker(RESOLVER, {}).check(DraftClaim(text[:2000], ("k1mq",))),
        "evidence": lambda: Checker(Resolver(make_shown(make_passage(1, text[:6000]))), {"a": "b"}).check(
            DraftClaim("Measure the lag 5 minutes.", ("k1mq",))
        ),
        "commands": lambda: commands(f"```sh\n{text[:20_000]}\n```", {}),
        "sql commands": lambda: commands(f"```sql\n{text[:20_000]}\n```", {}),
        "redis": lambda: classify(text, "redis"),
        "sql": lambda: classify(text, "sql"),
        "mongosh": lambda: classify(text, "mongosh"),
    }
    slow = {}
    for name, run in work.items():
        started = time.process_time()
        run()
        if (spent := time.process_time() - started) > LIMIT:
            slow[name] = round(spent, 2)
    assert slow == {}


def test_parsing_a_hundred_thousand_digits_and_brackets_takes_under_50_ms() -> None:
    for name in ("digits", "brackets", "closed brackets"):
        best = 1.0
        for _ in range(3):
            started = time.process_time()
            with pytest.raises(BadOutput):
                parse(HOSTILE[name], RESOLVER)
            best = min(best, time.process_time() - started)
        assert best < 0.25
