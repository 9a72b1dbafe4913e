"""Whether work grows with its input and no faster: by comparison, so that no machine is too slow for it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

FACTOR = 4
BOUND = 2.5 * FACTOR
"""Between linear work (4 times as long) and quadratic work (16 times)."""
NEGLIGIBLE = 0.02
"""Seconds; below this a clock says little, and growth does no harm."""
ATTEMPTS = 5


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Fail if `work(size)` takes out of proportion to `work(size // 4)`, in processor time, on each of five attempts.

    Args:
        work: What is measured, told how large its input shall be.
        size: The largest input.

    Raises:
        AssertionError: with the seconds of both sizes.
    """
    measured = []
    for _ in range(ATTEMPTS):
        small, large = _seconds(work, size // FACTOR), _seconds(work, size)
        if large < NEGLIGIBLE or large < BOUND * small:
            return
        measured.append(f"{small:.3f} s and {large:.3f} s")
    raise AssertionError(f"sizes {size // FACTOR} and {size} took {'; '.join(measured)}")


def _seconds(work: Callable[[int], object], size: int) -> float:
    # How much there is to collect depends on everything else in the process.
    collects = gc.isenabled()
    gc.disable()
    try:
        started = time.process_time()
        work(size)
        return time.process_time() - started
    finally:
        if collects:
            gc.enable()
