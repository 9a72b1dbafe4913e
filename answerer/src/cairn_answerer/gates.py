"""The first gate: is there anything to answer from, before a model is asked? The retriever's own verdicts."""

from __future__ import annotations

from cairn_answerer.model import Passage
from cairn_shared.api.search import Gate, SearchResponse


def enough(search: SearchResponse) -> bool:
    """There is an answer in one half of the corpus or the other."""
    return bool(search.results) and search.gate.enough


def passes(gate: Gate, hit: Passage) -> bool:
    """There is an answer in the half of the corpus that this hit is of: its runbooks, or its events."""
    verdict = gate.runbooks if hit.is_runbook else gate.events
    return verdict is not None and verdict.enough
