"""What reading a `git` repository may cost."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class CloneLimits:
    """What a clone may cost. `seconds` are those of the transfer as a whole, however slowly the bytes drip.

    `mebibytes` count on the wire, `inflated` (MiB) what they unpack to; `objects` also bounds the entries of a tree.
    """

    mebibytes: int = 512
    seconds: float = 120.0
    inflated: int = 1024
    objects: int = 200_000


@dataclass(frozen=True)
class ProcessLimits:
    """What the process may take: `memory` is its address space in MiB; `timeout` the seconds of one request."""

    clone: CloneLimits = CloneLimits()
    memory: int = 2048
    timeout: float = 30.0
