"""Pitfall 17: references resolve to what this request has shown, and to nothing else."""

from __future__ import annotations

import pytest
from answerer_corpus import make_passage, make_shown

from cairn_answerer.citations import Resolver, extract, sentences

SHOWN = make_shown(
    make_passage(1),
    make_passage(2),
    make_passage(3),
    make_passage(5, "text", label="3b"),
    make_passage(1, "other", title="Redis [cache] down, Step by step", runbook_id="redis"),
)
RESOLVER = Resolver(SHOWN)
TITLE = "PostgreSQL replica, fallen behind"


def steps(reference: str) -> list[tuple[str, int]]:
    return [(item.passage.runbook_id, item.passage.number) for item in RESOLVER.resolve(reference)]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("k1mq", [1]),
        ("[k1mq]", [1]),
        ("K1MQ", [1]),
        ("k1mq, k3mq", [1, 3]),
        ("id=k2mq", [2]),
        (f"{TITLE}, Step 2", [2]),
        (f"[{TITLE}, Step 2]", [2]),
        ("postgresql  REPLICA,\tfallen behind, step 2", [2]),
        (f"{TITLE}, Steps 1-3", [1, 2, 3]),
        (f"{TITLE}, Steps 1–3", [1, 2, 3]),
        (f"{TITLE}, Steps 1, 3", [1, 3]),
        (f"{TITLE}, Steps 2 and 3", [2, 3]),
        (f"{TITLE}, Step 3b", [5]),
        (f"{TITLE} Step 2", [2]),
        (f"{TITLE}: Step 2", [2]),
    ],
)
def test_a_reference_leads_to_its_steps(reference: str, expected: list[int]) -> None:
    assert steps(reference) == [("pg-replica", number) for number in expected]


def test_a_title_may_hold_brackets_and_the_word_step() -> None:
    assert steps("[Redis [cache] down, Step by step, Step 1]") == [("redis", 1)]


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "zz99",
        "k1mq zz99",
        f"{TITLE}, Step 4",
        f"{TITLE}, Step 0",
        f"{TITLE}, Step",
        f"{TITLE}, Step x",
        "Another runbook, Step 1",
        "Step 1",
        "1",
        TITLE,
        f"{TITLE}, Step 1; DROP TABLE steps",
        "x" * 10_000,
    ],
)
def test_what_was_not_shown_does_not_resolve(reference: str) -> None:
    assert steps(reference) == []


def test_a_range_that_names_everything_is_bounded() -> None:
    assert steps(f"{TITLE}, Steps 1-9999") == [("pg-replica", number) for number in (1, 2, 3, 5)]


@pytest.mark.parametrize(
    ("text", "left", "references"),
    [
        ("Do it [k1mq].", "Do it.", ("k1mq",)),
        ("Do it [k1mq][k2mq] now", "Do it now", ("k1mq", "k2mq")),
        (f"Do it 【{TITLE}, Step 2】.", "Do it.", (f"{TITLE}, Step 2",)),
        ("Do it ［k1mq］", "Do it", ("k1mq",)),
        ("Do it [Redis [cache] down, Step by step, Step 1].", "Do it.", ("Redis [cache] down, Step by step, Step 1",)),
        ("Invented [Foo, Step 9].", "Invented.", ("Foo, Step 9",)),
        ("Invented [b7q9].", "Invented.", ("b7q9",)),
        ("See [the docs](https://x.y/k1mq).", "See [the docs](https://x.y/k1mq).", ()),
        ("`arr[k1mq]` is code", "`arr[k1mq]` is code", ()),
        ("```\n[k1mq]\n```", "```\n[k1mq]\n```", ()),
        ("An unclosed ` tick [k1mq].", "An unclosed ` tick.", ("k1mq",)),
        ("Optional [flags] stay", "Optional [flags] stay", ()),
        ("redis .conf , kept", "redis .conf , kept", ()),
    ],
)
def test_references_are_taken_out_of_the_text(text: str, left: str, references: tuple[str, ...]) -> None:
    extracted = extract(text, RESOLVER)
    assert (extracted.text, extracted.references) == (left, references)


def test_sentences_keep_their_own_references() -> None:
    text = f"Do this [k1mq]. Then that [{TITLE}, Step 2] [k3mq]. `x` follows [k1mq] and goes on. The end [k2mq]."
    assert sentences(text, RESOLVER) == [
        "Do this [k1mq].",
        f"Then that [{TITLE}, Step 2] [k3mq].",
        "`x` follows [k1mq] and goes on. The end [k2mq].",
    ]
    assert sentences("Run [a] [k1mq]:\n```\nls [x]\n```", RESOLVER) == ["Run [a] [k1mq]:\n```\nls [x]\n```"]
