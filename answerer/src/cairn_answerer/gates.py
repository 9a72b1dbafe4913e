"""The first gate: is there anything to answer from, before a model is asked?"""

from __future__ import annotations

from cairn_shared.api.search import SearchResponse


def enough(search: SearchResponse) -> bool:
    """The retriever's own verdict, which belongs to its embedding model; an alert that led to a runbook passes."""
    return bool(search.results) and (search.gate.routed or search.gate.enough)
