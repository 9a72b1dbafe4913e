"""Asking a repository's host: again after a moment where that may help, and not for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, TransientError
from cairn_shared.kafka.progress import still_working
from cairn_shared.retry import Backoff

T = TypeVar("T")

FIRST_RETRY = 15.0
LAST_RETRY = 3600.0


class HostFailed(Exception):
    """The repository's host could not or would not tell; `error` says why."""

    def __init__(self, error: CairnError) -> None:
        super().__init__(error.detail)
        self.error = error


@dataclass(frozen=True)
class AskPolicy:
    """How often a question is asked, and how many seconds of waiting are still worth it."""

    attempts: int = 3
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.5, limit=4.0))
    longest_wait: float = 5.0


async def ask(question: Callable[[], Awaitable[T]], clock: Clock, policy: AskPolicy) -> T:
    """The answer of the host.

    Raises:
        HostFailed: there is none.
    """
    for attempt in range(1, policy.attempts + 1):
        try:
            answer = await question()
        except TransientError as exc:
            wait = exc.retry_after if exc.retry_after is not None else policy.backoff.delay(attempt)
            if attempt == policy.attempts or wait > policy.longest_wait:
                raise HostFailed(exc) from exc
            await clock.sleep(wait)
        except CairnError as exc:
            raise HostFailed(exc) from exc
        else:
            still_working()
            return answer
    raise AssertionError("unreachable")


def retry_in(failure: HostFailed, failures: int) -> timedelta:
    """When to try again after so many failures in a row; not before the host's own word."""
    wait = min(LAST_RETRY, FIRST_RETRY * 2 ** min(failures - 1, 16))
    if isinstance(failure.error, TransientError) and failure.error.retry_after is not None:
        wait = max(wait, failure.error.retry_after)
    return timedelta(seconds=wait)
