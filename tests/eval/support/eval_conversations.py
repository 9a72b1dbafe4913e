"""Conversations made mechanically: a page is on the screen, another question comes. What is it taken to be about?

Nobody wrote the pairs. A question of one page after the answer from another stands for itself; a sentence out of the
page on the screen is about that page; a few follow-ups that hold nothing of any page are about whatever is on the
screen; and a question that no page covers is about none, whatever was shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import httpx
from eval_run import Retriever
from eval_sets import Question

from cairn_answerer.conversation import Conversation, Found
from cairn_answerer.gates import enough
from cairn_shared.api.ask import AskRequest, Earlier, Seen
from cairn_shared.api.search import SearchRequest, SearchResponse
from cairn_shared.runbooks.model import Runbook

ALONE = "another page's question: keeps its page"
SENTENCE = "a sentence of the page shown: stays there"
GENERAL = "holds nothing of any page: stays there"
UNCOVERED = "no page covers it: not answered from the page shown"
KINDS = (ALONE, SENTENCE, GENERAL, UNCOVERED)
FOLLOW_UPS = (
    "what if that fails?", "step 3 gives me permission denied", "which one is destructive?", "I did that, no change",
    "why?", "and then?", "is it safe to run this in production?", "how long does that take?",
    "do I need root for this?", "it says command not found", "what should the output look like?", "can I skip step 2?",
    "who do I call if it does not help?", "that did not work", "how do I undo this?",
)  # fmt: skip
_WORDS = re.compile(r"\w+")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Turn:
    """A question with a page on the screen: that of `before`."""

    kind: str
    before: Question
    shown: str
    text: str


def turns(questions: Sequence[Question], pages: Mapping[str, Runbook]) -> Iterator[Turn]:
    """All pairs: each question with a page meets, as the one on the screen, the page of another of these questions."""
    covered = [one for one in questions if one.answer in pages]
    for number, one in enumerate(questions):
        other = covered[(7 * number + 3) % len(covered)]
        shown = pages[str(other.answer)].id
        if one.answer is None:
            yield Turn(UNCOVERED, other, shown, one.text)
            continue
        if one.answer in pages and pages[one.answer].id != shown:
            yield Turn(ALONE, other, shown, one.text)
        sentences = list(_sentences(pages[str(other.answer)]))
        if sentences:
            yield Turn(SENTENCE, other, shown, sentences[number % len(sentences)])
        yield Turn(GENERAL, other, shown, FOLLOW_UPS[number % len(FOLLOW_UPS)])


def _sentences(page: Runbook) -> Iterator[str]:
    for step in page.steps:
        for sentence in re.split(r"(?<=[.!?:])\s+|\n+", _FENCE.sub("", step.body)):
            if 5 <= len(_WORDS.findall(sentence)) <= 18:
                yield re.sub(r"[*`#>\[\]]", " ", sentence).strip()


class AsPort:
    """The evaluation's retriever as the answerer knows one; all runbooks are there."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def search(self, request: SearchRequest, timeout: float) -> SearchResponse:
        """One search; its time does not matter here."""
        response = await self._client.post("/search", json=request.model_dump(mode="json"), timeout=None)
        response.raise_for_status()
        return SearchResponse.model_validate_json(response.content)


class AllThere:
    """A corpus that has every runbook it is asked for."""

    async def named(self, runbook_ids: Sequence[str], titles: Sequence[str]) -> dict[str, str]:
        """As told."""
        return dict.fromkeys(runbook_ids, "")


async def measure(asked: Retriever, every: Sequence[Turn]) -> dict[str, tuple[int, int]]:
    """By kind: (turns taken as they should be, all that count). A question that finds nothing alone does not count."""
    port = AsPort(asked.client)
    conversation = Conversation(port, port, AllThere())  # type: ignore[arg-type]  # all that it asks of a corpus
    right: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for turn in every:
        context = Earlier(question=turn.before.text[:2000], cited=[Seen(runbook_id=turn.shown)])
        found = await conversation.find(AskRequest(question=turn.text, context=context), 60)
        alone = await port.search(SearchRequest(query=turn.text, k=8), 60)
        if turn.kind != ALONE or (enough(alone) and alone.results[0].runbook_id != turn.shown):
            right[turn.kind].append(_as_it_should(turn, found))
    return {kind: (sum(cases), len(cases)) for kind, cases in right.items() if cases}


def _as_it_should(turn: Turn, found: Found) -> bool:
    if turn.kind in (ALONE, UNCOVERED):
        return not found.follows
    return found.follows or (enough(found.search) and found.search.results[0].runbook_id == turn.shown)
