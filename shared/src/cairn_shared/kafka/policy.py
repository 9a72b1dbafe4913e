"""How a consumer behaves, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cairn_shared.retry import Backoff

GroupProtocol = Literal["classic", "consumer"]
ExpiredOffset = Literal["stop", "earliest"]


@dataclass(frozen=True)
class ConsumerPolicy:
    """Sizes in records and bytes, times in seconds.

    The order that must hold: drain_timeout + commit_budget + 3 < the process's time to stop < max_poll_interval, so
    that a drain costs neither a clean end nor the membership.
    """

    batch_records: int = 10
    batch_wait: float = 0.2
    """A batch is handed over at `batch_records` or `batch_wait` after its first record, whichever comes first."""

    buffer_records: int = 200
    buffer_bytes: int = 16 * 1024 * 1024
    """Per partition: fetching pauses at either cap and resumes at `resume_at` of it."""
    resume_at: float = 0.8

    fetch_records: int = 500
    poll_timeout: float = 0.05
    """How long the owning thread may wait for records before it looks at its mailbox again."""

    commit_interval: float = 1.0
    commit_attempts: int = 4
    commit_pause: float = 0.25
    commit_budget: float = 4.0
    """Synchronous commits (revoke, close) are tried up to `commit_attempts` times, `commit_pause` apart; no try
    begins after `commit_budget`. One try waits for up to 3 s when the coordinator is away (seen with 2.16)."""

    drain_timeout: float = 10.0
    assign_timeout: float = 60.0
    """How long the committed offsets of new partitions may take to read before the process gives up."""

    session_timeout: float = 10.0
    max_poll_interval: float = 300.0
    stuck_after: float = 180.0
    """A partition with lag that shows no sign of life for this long ends the process."""

    protocol: GroupProtocol = "classic"
    leave_group: bool = True
    """Tell the group at a clean end, so that others take over at once; else they wait for the session's end."""
    expired_offset: ExpiredOffset = "stop"
    """What to do when retention deleted records that this group never read."""

    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.25, limit=15.0))
