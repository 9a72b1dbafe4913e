"""A model's output to claims, whatever shape it has."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from answerer_corpus import make_passage, make_shown
from hypothesis import given
from hypothesis import strategies as st

from cairn_answerer.citations import Resolver
from cairn_answerer.errors import BadOutput
from cairn_answerer.parsing import MAX_CLAIMS, ClaimReader, parse

RESOLVER = Resolver(make_shown(make_passage(1), make_passage(2)))
ANSWER = json.dumps(
    {
        "answerable": True,
        "claims": [
            {"text": 'Quote " and \\ and { brace }', "cites": ["k1mq"]},
            {"text": "Second\nline", "cites": ["k2mq"]},
        ],
    }
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_claims_are_complete_however_the_text_is_cut(size: int) -> None:
    reader = ClaimReader()
    found = [claim for start in range(0, len(ANSWER), size) for claim in reader.feed(ANSWER[start : start + size])]
    assert [claim.text for claim in found] == ['Quote " and \\ and { brace }', "Second\nline"]
    assert reader.answerable is True
    assert not reader.unfinished


def test_a_claim_is_handed_out_as_soon_as_it_is_complete() -> None:
    reader = ClaimReader()
    cut = ANSWER.index("Second")
    assert len(reader.feed(ANSWER[:cut])) == 1
    assert reader.answerable is True
    assert reader.unfinished


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "I cannot help with that.",
        "null",
        "[]",
        '{"answerable": true, "claims": [{"text": "cut off',
        '{"answerable": true, "claims": [{"text": "", "cites": []}',
        '{"text": 5}',
        '{"answerable": true}',
        '{"answerable": true, "claims": null}',
        '{"answerable": true, "claims": "none"}',
        '{"answerable": true, "claims": ["Measure the lag."]}',
        '{"answerable": true, "claims": [["Measure the lag.", "k1mq"]]}',
        '{"answerable": true, "claims": {}}',
        '{"answerable": null}',
        '{"answerable": null, "claims": []}',
        '{"answerable": "no", "claims": []}',
        '{"answerable": true, "claims": [{"text": "", "cites": ["k1mq"]}]}',
        '{"answerable": true, "claims": [{"text": "  ", "cites": ["k1mq"]}]}',
        "[" * 5000,
        "{" * 5000,
        '{"a":' * 3000,
        "\\" * 1001,
        '"' * 1001,
    ],
)
def test_output_without_a_claim_is_bad(text: str) -> None:
    with pytest.raises(BadOutput):
        parse(text, RESOLVER)


@pytest.mark.parametrize(
    "text",
    [
        '{"answerable": false, "claims": []}',
        '{"answerable": false}',
        "I don't have a runbook covering that",
        "I don’t have a runbook covering that.",
        '```json\n{ "answerable" : false , "claims" : [] }\n```',
    ],
)
def test_a_refusal_is_recognised(text: str) -> None:
    assert parse(text, RESOLVER).answerable is False


@pytest.mark.parametrize("text", ['{"answerable": true, "claims": []}', '{"claims": []}'])
def test_an_answer_without_claims_is_empty(text: str) -> None:
    assert parse(text, RESOLVER).claims == ()


def test_prose_keeps_a_fence_with_the_line_before_it() -> None:
    draft = parse("Intro without citation.\n\n- Run this [k1mq]:\n```sh\nls [x]\n```\n- Then that [k2mq].", RESOLVER)
    assert [claim.text for claim in draft.claims] == ["Run this:\n```sh\nls [x]\n```", "Then that."]


def test_claims_are_limited() -> None:
    claims = [{"text": f"claim {number}", "cites": ["k1mq"]} for number in range(500)]
    assert len(parse(json.dumps({"claims": claims}), RESOLVER).claims) == MAX_CLAIMS
    assert len(parse("\n".join(f"claim {number} [k1mq]" for number in range(500)), RESOLVER).claims) == MAX_CLAIMS


def test_a_claim_too_long_to_check_is_no_claim() -> None:
    with pytest.raises(BadOutput):
        parse(json.dumps({"claims": [{"text": "x" * 3000, "cites": ["k1mq"]}]}), RESOLVER)


@given(st.text(max_size=300))
def test_any_text_is_parsed_or_bad(text: str) -> None:
    with suppress(BadOutput):
        parse(text, RESOLVER)


@given(st.text(alphabet='{}[]":,\\ tea`k1mq', max_size=200), st.integers(1, 9))
def test_reading_in_pieces_finds_what_reading_at_once_finds(text: str, size: int) -> None:
    whole, pieces = ClaimReader(), ClaimReader()
    whole.feed(text)
    for start in range(0, len(text), size):
        pieces.feed(text[start : start + size])
    assert pieces.claims == whole.claims
