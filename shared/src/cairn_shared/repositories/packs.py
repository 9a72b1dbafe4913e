"""Looking at a pack before anything unpacks it (gitformat-pack(5))."""

from __future__ import annotations

import zlib
from typing import IO

from cairn_shared.errors import TooLarge, Unavailable
from cairn_shared.repositories.limits import MEBIBYTE, CloneLimits

CHUNK = 16 * 1024
_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7


class _Broken(Unavailable):
    """The pack is not one, or ends too soon."""

    def __init__(self) -> None:
        super().__init__("repository", "the repository's host sent a broken pack")


def check_pack(pack: IO[bytes], limits: CloneLimits, id_bytes: int = 20) -> None:
    """Read a pack through, holding 16 KiB of it, and add up what its objects unpack to.

    An object counts with the size that it declares, a delta with that of what it makes as well: both are known
    before the bytes are. An object that unpacks to another size than it declares is refused.

    Args:
        pack: at its beginning. An empty file is no pack and passes.
        limits: of these `objects` and `inflated` count.
        id_bytes: of an object's id: 20 of SHA-1, 32 of SHA-256.

    Raises:
        TooLarge: over one of the limits; the detail names the setting.
        Unavailable: it is no whole pack.
    """
    source = _Source(pack)
    if source.ended():
        return
    header = source.take(12)
    if header[:4] != b"PACK" or header[4:8] not in {b"\0\0\0\2", b"\0\0\0\3"}:
        raise _Broken
    count = int.from_bytes(header[8:], "big")
    if count > limits.objects:
        raise TooLarge(f"the clone has {count} objects, over {limits.objects} (REPO_CLONE_OBJECTS)", field="size")
    left = limits.inflated * MEBIBYTE
    for _ in range(count):
        kind, size = source.object_header(id_bytes)
        left -= size
        if left >= 0:
            left -= source.inflate(size, delta=kind in {_OFFSET_DELTA, _REFERENCE_DELTA})
        if left < 0:
            raise TooLarge(f"the clone unpacks to over {limits.inflated} MiB (REPO_INFLATED_MIB)", field="size")


class _Source:
    """The bytes of a pack, some at a time."""

    def __init__(self, pack: IO[bytes]) -> None:
        self._pack = pack
        self._held, self._at = b"", 0

    def ended(self) -> bool:
        if self._at == len(self._held):
            self._held, self._at = self._pack.read(CHUNK), 0
        return not self._held

    def byte(self) -> int:
        if self.ended():
            raise _Broken
        self._at += 1
        return self._held[self._at - 1]

    def take(self, count: int) -> bytes:
        return bytes(self.byte() for _ in range(count))

    def object_header(self, id_bytes: int) -> tuple[int, int]:
        """The type and the declared size; what a delta is against is passed over."""
        byte = self.byte()
        kind, size, shift = (byte >> 4) & 7, byte & 15, 4
        while byte & 0x80:
            byte = self.byte()
            size |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise _Broken
        if kind == _OFFSET_DELTA:
            while self.byte() & 0x80:
                pass
        elif kind == _REFERENCE_DELTA:
            self.take(id_bytes)
        return kind, size

    def inflate(self, size: int, *, delta: bool) -> int:
        """Pass over one stream of `size` bytes; the bytes that it makes beyond its own, 0 where it is no delta."""
        inflater, seen, start = zlib.decompressobj(), 0, b""
        while not inflater.eof:
            if self.ended():
                raise _Broken
            try:
                plain = inflater.decompress(memoryview(self._held)[self._at :], CHUNK)
            except zlib.error as exc:
                raise _Broken from exc
            self._at = len(self._held) - len(inflater.unconsumed_tail or inflater.unused_data)
            seen += len(plain)
            if len(start) < 20:
                start += plain[:20]
            if seen > size:
                raise _Broken
        if seen != size:
            raise _Broken
        return _made_by(start) if delta else 0


def _made_by(delta: bytes) -> int:
    """The size of what a delta makes: the second of the two numbers at its start."""
    at = number = 0
    for _ in range(2):
        number = shift = 0
        while True:
            if at >= len(delta):
                raise _Broken
            byte = delta[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
    return number
