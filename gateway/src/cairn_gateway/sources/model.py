"""What goes into a translator and what comes out."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from cairn_gateway.sources.incoming import Incoming
from cairn_gateway.sources.leaving_out import LeftOut
from cairn_shared.events import Event


@dataclass(frozen=True)
class Delivery:
    """One request of a sender, as it came; nothing is checked yet. Header names are lower case."""

    headers: Mapping[str, str]
    body: bytes
    received_at: datetime
    peer: str = ""
    """The address that it came from."""

    def header(self, name: str) -> str:
        """The header `name` (lower case), or the empty string."""
        return self.headers.get(name, "").strip()

    def id_from(self, *names: str) -> str:
        """The sender's own id of this delivery: the first of the headers `names` that is set, at most 200 characters.

        Without one the digest of the body stands in: a redelivery has the same bytes.
        """
        for name in names:
            if value := self.header(name):
                return value[:200]
        return f"sha256:{hashlib.sha256(self.body).hexdigest()}"


@dataclass(frozen=True)
class Telling:
    """That `sender` said of `subject` whether it is over; a sender's own words come one after the other."""

    subject: str
    sender: str
    over: bool


@dataclass(frozen=True)
class Translation:
    """What a delivery became. `ignored` says why when nothing came of it; `notes` are for the operator."""

    events: list[Event] = field(default_factory=list)
    ignored: str | None = None
    notes: list[str] = field(default_factory=list)
    cut: Literal["fetched", "left"] | None = None
    """What becomes of commits that the sender did not list."""
    tellings: tuple[Telling, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    """What of the payload could not be read and was not needed."""

    names: Mapping[str, str] = field(default_factory=dict)
    """What the sender's numbers stand for, to be remembered."""
    asks: tuple[str, ...] = ()
    """Numbers whose names would make more of the delivery."""

    def without(self, payload: Incoming) -> Translation:
        """The same, telling what was left out of `payload`."""
        return dataclasses.replace(self, left_out=payload.left_out)


@dataclass(frozen=True)
class RunbookRepositories:
    """What a push needs to know of repositories.

    `names`: of the declared runbook repositories by (canonical URL, branch). `apis`: the hosts whose API may be asked.
    """

    names: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    apis: frozenset[str] = frozenset()

    def named(self, urls: Iterable[str], branch: str) -> list[str]:
        """The names under which any of the canonical `urls` is declared for `branch`, sorted."""
        return sorted({name for url in urls for name in self.names.get((url, branch), ())})
