"""Versions from the sender's own times: the order of writes must not depend on when they arrive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 2**63 - 1


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, never negative."""
    return max(0, (moment - _EPOCH) // timedelta(microseconds=1))


def version(moment: datetime, rank: int = 0) -> int:
    """A version that orders by `moment`, and by `rank` (0 to 999) between events of the same moment.

    Most senders write whole seconds or milliseconds, so the last three digits are free: there `rank` says which of
    two states comes later in the life of the thing (opened before closed before deleted).
    """
    return min(_LAST, microseconds(moment) // 1000 * 1000 + min(max(rank, 0), 999))
