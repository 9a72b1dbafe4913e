"""ETags of runbooks: the revision in quotes (RFC 9110 §8.8.3, §13.1)."""

from __future__ import annotations

import re

from cairn_shared.errors import InvalidInput
from cairn_shared.runbooks.records import Precondition

_TAG = re.compile(r'(?:W/)?"?(\d{1,18})"?')
_OPAQUE = re.compile(r'(?:W/)?"[^"]*"')


def etag(revision: int) -> str:
    """The ETag of a revision."""
    return f'"{revision}"'


def revisions_of(header: str, name: str) -> frozenset[int]:
    """The revisions that a list of ETags names; tags that are no revision of ours name none.

    Raises:
        InvalidInput: not a list of ETags.
    """
    revisions: set[int] = set()
    for part in header.split(","):
        tag = part.strip()
        if match := _TAG.fullmatch(tag):
            revisions.add(int(match.group(1)))
        elif not _OPAQUE.fullmatch(tag):
            raise InvalidInput(f'{name} must be an ETag such as "3", or *', field=name)
    return frozenset(revisions)


def precondition(if_match: str | None, if_none_match: str | None) -> Precondition:
    """What a write asks of the present revision.

    Raises:
        InvalidInput: a header is not an ETag, or If-None-Match is not `*`, the only value that makes sense for a write.
    """
    if if_none_match is not None and if_none_match.strip() != "*":
        raise InvalidInput("If-None-Match must be * when writing", field="If-None-Match")
    if if_match is None:
        return Precondition(no_revision=if_none_match is not None)
    if if_match.strip() == "*":
        return Precondition(any_revision=True, no_revision=if_none_match is not None)
    return Precondition(revisions_of(if_match, "If-Match"), no_revision=if_none_match is not None)


def unchanged(if_none_match: str | None, revision: int) -> bool:
    """Whether a reader has this revision already (304)."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or revision in revisions_of(if_none_match, "If-None-Match")
