"""How a consumer ends.

CairnError
├── ConsumptionHalted     raised by a handler: keep the partition paused until a person releases it
└── EngineFailed          the process should end and be started again
    └── OffsetExpired     ... after a person has decided about records that were never read
"""

from __future__ import annotations

from cairn_shared.errors import CairnError


class ConsumptionHalted(CairnError):
    """Too much fails for good: stop here and let a person look, instead of emptying the topic into dead letters."""

    status = 503
    title = "Consumption halted"


class EngineFailed(CairnError):
    """The consumer cannot go on; the process should end and be started again."""

    title = "Consumer failed"


class OffsetExpired(EngineFailed):
    """Retention deleted records that were never read, and the policy says that a person decides."""
