"""What speaks for the first document of an order, for the gate to judge. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Container, Sequence

from cairn_retriever.lexical import Bm25
from cairn_retriever.model import Evidence
from cairn_retriever.places import Step
from cairn_retriever.policy import GatePolicy


def evidence(
    steps: Sequence[Step], products: Collection[str], quoted: Container[uuid.UUID], bm25: Bm25, policy: GatePolicy
) -> Evidence | None:
    """What speaks for the first document of `steps`, one half of the corpus in order; None when there are none.

    `products` are the lexemes of the products that the query names, `quoted` the documents that hold its phrases.
    """
    if not steps:
        return None
    cosines: dict[uuid.UUID, float] = {}
    for step in steps:
        for cosine in (one.candidate.cosine for one in step.chunks):
            if cosine is not None:
                cosines[step.document_id] = max(cosines.get(step.document_id, -1.0), cosine)
    first = steps[0].document_id
    cosine = cosines.get(first)
    chunks = [one.candidate for step in steps if step.document_id == first for one in step.chunks]
    gap = 0.0 if cosine is None else cosine - _rival(sorted(cosines.values(), reverse=True), policy)
    foreign = bool(products) and not bm25.hold(chunks, products)
    return Evidence(
        cosine,
        bm25.coverage(chunks),
        gap,
        quoted=first in quoted,
        foreign=foreign,
        document_id=first,
        held=frozenset[str]().union(*(step.held for step in steps if step.document_id == first)),
    )


def _rival(cosines: Sequence[float], policy: GatePolicy) -> float:
    """What the first is compared with; where there are few documents, one that is about something else."""
    return cosines[policy.rival - 1] if len(cosines) >= policy.rival else min(cosines[-1], policy.stranger)
