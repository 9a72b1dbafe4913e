"""What a question after an answer is about: decided by what is found, never by its words."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from answerer_bench import Bench
from answerer_corpus import TITLE, make_event, make_hit, make_search
from hypothesis import given
from hypothesis import strategies as st

from cairn_answerer import cache
from cairn_answerer.conversation import stands_alone
from cairn_answerer.model import CorpusState
from cairn_shared.api.ask import AskRequest, Earlier, Seen
from cairn_shared.api.search import SearchFilters, SearchRequest, SearchResponse

BEFORE = "How do I recover the replica?"
SHOWN = Earlier(question=BEFORE, cited=[Seen(runbook_id="pg-replica", steps=[1, 2])])
OTHER = uuid.UUID("22222222-2222-4222-8222-222222222222")


def found(
    cosine: float | None,
    *,
    runbook: str = "pg-replica",
    enough: bool = True,
    believed: float = 0.9,
    names: tuple[str, ...] = (),
) -> SearchResponse:
    hit = make_hit(1) if runbook == "pg-replica" else make_hit(1, runbook_id=runbook, document_id=OTHER, title="Other")
    search = make_search(hit, enough=enough)
    assert search.gate.runbooks is not None
    half = search.gate.runbooks.model_copy(update={"cosine": cosine, "confidence": believed})
    gate = search.gate.model_copy(update={"runbooks": half, "identifiers_found": list(names)})
    return search.model_copy(update={"gate": gate})


def corpus_of(
    by_itself: SearchResponse, there: SearchResponse, together: SearchResponse | None = None
) -> Callable[[SearchRequest], SearchResponse]:
    """A retriever as it answers the question alone, within what was shown, and with the question before it."""

    def answer(asked: SearchRequest) -> SearchResponse:
        if asked.filters.runbooks:
            assert asked.filters.runbooks == ["pg-replica"]
            return there
        return (together or there) if BEFORE in asked.query else by_itself

    return answer


def reported(cosine: float) -> SearchResponse:
    """An event that passed the gate, before the page that is shown, which did not."""
    event = make_event("orders-42 was deployed")
    search = make_search(event, make_hit(1), runbooks=False)
    assert search.gate.events is not None
    half = search.gate.events.model_copy(update={"cosine": cosine})
    return search.model_copy(update={"gate": search.gate.model_copy(update={"events": half})})


def test_an_event_stands_for_itself_as_a_page_does() -> None:
    assert stands_alone(reported(0.8), found(0.2))
    assert not stands_alone(reported(0.3), found(0.2))


NOTHING = found(0.1, enough=False)
ELSEWHERE = found(0.8, runbook="other")
CASES = {
    "finds nothing alone": (found(0.2, runbook="other", enough=False), NOTHING, True),
    "finds what is shown": (found(0.9), found(0.9), True),
    "finds another page a little better": (found(0.45, runbook="other"), found(0.3), True),
    "finds another page clearly": (ELSEWHERE, found(0.2, enough=False), False),
    "names what is not shown": (found(0.3, runbook="other", names=("53300",)), found(0.3), False),
    "names what is shown too": (found(0.3, runbook="other", names=("53300",)), found(0.3, names=("53300",)), True),
    "words alone, here too": (found(None, runbook="other"), found(None), True),
    "words alone, only there": (found(None, runbook="other"), found(None, enough=False), False),
}


@pytest.mark.parametrize(("by_itself", "there", "follows"), CASES.values(), ids=CASES)
async def test_evidence_decides_what_a_question_is_about(
    bench: Bench, by_itself: SearchResponse, there: SearchResponse, *, follows: bool
) -> None:
    bench.model = None
    bench.retriever.answer = corpus_of(by_itself, there, found(0.8))
    answer = await (await bench.answerer()).ask(AskRequest(question="and?", context=SHOWN))
    assert (answer.follows, answer.mode) == (follows, "excerpts")
    assert {source.runbook_id for source in answer.sources if source.cited} == {"pg-replica" if follows else "other"}


async def test_what_neither_finds_is_refused_as_ever(bench: Bench) -> None:
    bench.model = None
    nothing = found(0.2, runbook="other", enough=False)
    for together in (NOTHING, found(0.9, believed=0.3)):  # the question before quotes its page, and no more
        bench.retriever.answer = corpus_of(nothing, NOTHING, together)
        answer = await (await bench.answerer()).ask(AskRequest(question="who won the cup?", context=SHOWN))
        assert (answer.mode, answer.follows) == ("refused", False)


async def test_a_follow_up_is_searched_for_where_the_answer_was_with_both_questions(bench: Bench) -> None:
    bench.retriever.answer = corpus_of(NOTHING, found(0.3), found(0.8))
    assert bench.model is not None
    await (await bench.answerer()).ask(AskRequest(question="what if that fails?", context=SHOWN))
    last = bench.retriever.requests[-1].body
    assert (last["query"], last["extra_query"], last["filters"]["runbooks"]) == (
        "what if that fails?",
        BEFORE,
        ["pg-replica"],
    )
    assert BEFORE in bench.model.calls[-1].prompt, "the model is told what 'that' is"


async def test_a_secret_in_the_question_before_does_not_reach_the_model(bench: Bench) -> None:
    bench.retriever.answer = corpus_of(NOTHING, found(0.3), found(0.8))
    secret = "postgres://app:hunter2hunter2@db/orders"
    context = Earlier(question=f"{BEFORE} {secret}", cited=SHOWN.cited)
    assert (await (await bench.answerer()).ask(AskRequest(question="why?", context=context))).follows
    assert bench.model is not None
    assert BEFORE in bench.model.calls[-1].prompt
    assert "hunter2" not in bench.model.calls[-1].prompt


@pytest.mark.parametrize(
    "cited",
    [[Seen(title=TITLE, steps=[2])], [Seen(runbook_id="pg-replica"), Seen(runbook_id="deleted since")]],
    ids=["a title", "a runbook that is gone"],
)
async def test_a_runbook_is_known_by_id_or_title_while_it_is_there(bench: Bench, cited: list[Seen]) -> None:
    bench.model = None
    bench.retriever.answer = corpus_of(NOTHING, found(0.3), found(0.8))
    context = Earlier(question=BEFORE, cited=cited)
    assert (await (await bench.answerer()).ask(AskRequest(question="why?", context=context))).follows


async def test_after_an_answer_without_a_runbook_the_words_before_help(bench: Bench) -> None:
    bench.model = None
    bench.retriever.answer = corpus_of(NOTHING, NOTHING, found(0.8))
    context = Earlier(question=BEFORE, cited=[Seen(runbook_id="deleted since")])
    answer = await (await bench.answerer()).ask(AskRequest(question="on db-7", context=context))
    assert (answer.mode, answer.follows) == ("excerpts", False)


@pytest.mark.parametrize(
    "request_",
    [
        AskRequest(question=BEFORE),
        AskRequest(question="and?", context=SHOWN, filters=SearchFilters(runbooks=["pg-replica"])),
    ],
    ids=["no context", "a runbook is named"],
)
async def test_without_anything_to_find_out_there_is_one_search(bench: Bench, request_: AskRequest) -> None:
    bench.model = None
    answer = await (await bench.answerer()).ask(request_)
    assert (answer.follows, len(bench.retriever.requests)) == (False, 1)


def test_an_answer_is_kept_for_its_context_alone() -> None:
    prints = cache.Fingerprints("m", "p", "r")
    state = CorpusState(1, "minilm")
    requests = [
        AskRequest(question="why?"),
        AskRequest(question="why?", context=SHOWN),
        AskRequest(question="why?", context=Earlier(question="another", cited=SHOWN.cited)),
        AskRequest(question="why?", context=Earlier(question=BEFORE, cited=[Seen(runbook_id="redis")])),
    ]
    assert len({cache.key(request, state, prints) for request in requests}) == len(requests)


@given(near=st.floats(-1, 1), shown=st.floats(-1, 1), better=st.floats(0, 1))
def test_a_nearer_page_never_makes_it_a_follow_up(near: float, shown: float, better: float) -> None:
    before = stands_alone(found(near, runbook="other"), found(shown))
    after = stands_alone(found(min(1.0, near + better), runbook="other"), found(shown))
    assert after >= before
    assert not (near <= shown < 1 and before)
