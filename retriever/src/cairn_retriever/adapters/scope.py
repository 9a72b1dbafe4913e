"""A request's filters as SQL conditions over `chunks c` and `documents d`. Values are bound, never written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cairn_shared.api.search import SearchFilters

Half = Literal["runbooks", "events"]

_HALVES = {"runbooks": "{}.kind = 'runbook'", "events": "{}.kind <> 'runbook'"}


def half(name: Half, alias: str) -> str:
    """The condition that the partial indexes of one half of the corpus are made for."""
    return _HALVES[name].format(alias)


@dataclass(frozen=True)
class Scope:
    """What a request searches in."""

    filters: SearchFilters

    def includes(self, name: Half) -> bool:
        """Whether that half of the corpus is searched at all."""
        kind = "runbook" if self.filters.runbooks and self.filters.kind is None else self.filters.kind
        return kind is None or (kind == "runbook") == (name == "runbooks")

    @property
    def event_kind(self) -> str | None:
        """The one kind of event that is wanted, if one."""
        kind = self.filters.kind
        return None if kind in (None, "runbook", "event") else kind

    @property
    def restricted(self) -> bool:
        """Whether documents are left out for another reason than their kind."""
        filters = self.filters
        values = (filters.source, filters.service, filters.since, filters.until)
        return bool(filters.runbooks) or any(value is not None for value in values)

    def conditions(self, name: Half, args: list[Any]) -> str:
        """Conditions for one half; the values are appended to `args`."""
        filters = self.filters
        parts = ["NOT d.deleted", half(name, "c")]
        # Chunks of runbooks do not age; the document tells when the runbook was changed.
        when = "d.occurred_at" if name == "runbooks" else "c.occurred_at"
        for condition, value in (
            ("c.kind = ${}", self.event_kind),
            ("d.external_id = ANY(${}::text[])", filters.runbooks or None),
            ("d.source = ${}", filters.source),
            ("d.service = ${}", filters.service),
            (when + " >= ${}", filters.since),
            (when + " <= ${}", filters.until),
        ):
            if value is not None:
                args.append(value)
                parts.append(condition.format(len(args)))
        return " AND ".join(parts)
