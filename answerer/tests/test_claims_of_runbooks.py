"""Pitfall 18 on the demo runbooks: sentences that turn a step round are dropped, other words for it are kept.

A lie that passes and a true claim that is dropped are both known by name here: the first is a danger to look at, the
second costs a sentence of an answer whose steps are still shown.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from answerer_corpus import make_passage, make_shown
from held_out_claims import MORE_LIES, MORE_TRUE
from last_claims import LAST_LIES, LAST_TRUE
from lies import LIES
from recombined_lies import RECOMBINED_LIES
from true_claims import TRUE_CLAIMS

from cairn_answerer.citations import Resolver
from cairn_answerer.model import DraftClaim
from cairn_answerer.verification import Checker, Verdict
from cairn_shared.runbooks.markdown import decode_markdown, load_runbook

RUNBOOKS = Path(__file__).parents[2] / "data" / "runbooks"

STILL_PASSING = {
    "Stop one application deployment if you get a prompt.",
    "Sessions which did nothing for ten minutes are rolled back.",
    "Fewer pools means fewer replicas.",
    "Block port 5432 on the pod.",
    "Run it on the primary.",
}
"""Words of one sentence of the step, or of two that follow one another, put together anew."""

WRONGLY_DROPPED = {
    "The new limit takes effect at once without a restart.",
    "Stop the writers of the collection first.",
    "Choose a base backup that ended before the accident.",
    "Check the free space first, because raising `max_slot_wal_keep_size` costs disk on the primary.",
    "Freeze the worst tables by hand; reads and writes go on as normal.",
    "Run `SELECT pg_reload_conf();` afterwards.",
    "If there is not enough space, extend the volume.",
    "Risk: data written now is lost if the process dies before the next good save.",
    "Run `BGSAVE` once by hand to prove that the cause is gone.",
    "Rotated error logs and slow query logs are safe to delete.",
    "Check that writes work on the new primary.",
}
"""Each has a word that its sentence does not have: `new`, `first`, `accident`, `costs`, `space`, `data`, ..."""


@cache
def _checker(runbook: str, step: int) -> Checker:
    path = RUNBOOKS / f"{runbook}.md"
    loaded = load_runbook(decode_markdown(path.read_bytes()), runbook_id="x", path=path.name)
    body = next(item.body for item in loaded.steps if item.label == str(step) and item.section == "Steps")
    return Checker(Resolver(make_shown(make_passage(step, body, title=loaded.title))), {})


def check(runbook: str, step: int, text: str) -> Verdict:
    return _checker(runbook, step).check(DraftClaim(text, ("k1mq",)))


def _each(*lists: dict[str, list[tuple[int, str]]]) -> list[tuple[str, int, str]]:
    return [(runbook, step, text) for claims in lists for runbook, found in claims.items() for step, text in found]


@pytest.mark.parametrize(
    ("runbook", "step", "text"),
    [each for each in _each(LIES, MORE_LIES, RECOMBINED_LIES, LAST_LIES) if each[2] not in STILL_PASSING],
)
def test_a_lie_is_dropped(runbook: str, step: int, text: str) -> None:
    assert check(runbook, step, text).claim is None


@pytest.mark.parametrize(
    ("runbook", "step", "text"),
    [each for each in _each(TRUE_CLAIMS, MORE_TRUE, LAST_TRUE) if each[2] not in WRONGLY_DROPPED],
)
def test_other_words_for_a_step_are_kept(runbook: str, step: int, text: str) -> None:
    verdict = check(runbook, step, text)
    assert verdict.claim is not None, (verdict.fault, verdict.detail)


@pytest.mark.parametrize(
    ("runbook", "step", "text"),
    [each for each in _each(TRUE_CLAIMS, MORE_TRUE, LAST_TRUE) if each[2] in WRONGLY_DROPPED],
)
def test_these_true_claims_are_known_to_be_dropped(runbook: str, step: int, text: str) -> None:
    assert check(runbook, step, text).fault in ("overlap", "opposite")


@pytest.mark.parametrize(
    ("runbook", "step", "text"), [each for each in _each(RECOMBINED_LIES) if each[2] in STILL_PASSING]
)
def test_these_lies_are_known_to_pass(runbook: str, step: int, text: str) -> None:
    assert check(runbook, step, text).claim is not None, "dropped now: take it off the list, and out of the docs"


def test_a_sentence_said_twice_is_shown_once() -> None:
    verdict = check("postgresql/connections-exhausted", 1, "Use the local socket. Use the local socket.")
    assert verdict.claim is not None
    assert verdict.claim.text == "Use the local socket."


def test_an_invisible_character_joins_no_words() -> None:
    assert check("postgresql/connections-exhausted", 1, "Use the local\u202esocket.").claim is None
