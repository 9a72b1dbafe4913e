"""Open-loop load over HTTP/1.1: requests go out at fixed times, whether or not those before were answered.

Latency counts from the moment at which a request was due, so a server that stalls is charged for everybody who would
have come meanwhile ("coordinated omission", Tene 2013). The client is bare asyncio: httpx takes longer for a request
than a cached answer does. It runs in a process of its own: `python open_load.py < plan.json > result.json`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

GIVE_UP = 60.0
"""Seconds for one request; a run ends at most so long after its last one."""


@dataclass(frozen=True)
class Plan:
    """`bodies` are sent in turn, each with the header of the same place in `each` if there is one."""

    url: str
    bodies: Sequence[str]
    rate: float
    seconds: float
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    each: Sequence[Mapping[str, str]] = ()
    paths: Sequence[str] = ()
    """Where each body goes, where that is not the path of `url`."""

    connections: int = 64
    keep: bool = False
    """Give the answers back too."""


@dataclass(frozen=True)
class Result:
    """Seconds of every answered request; `late`: the longest time by which the client itself missed the moment.

    `answers`: when each came (seconds since the epoch) and its body, where the plan wants them.
    """

    latencies: list[float]
    statuses: dict[str, int]
    errors: dict[str, int]
    late: float
    answers: list[tuple[float, str]]
    by_status: dict[str, list[float]] = field(default_factory=dict)

    def quantile(self, share: float) -> float:
        """Milliseconds; of no answers: infinity."""
        return _quantile(self.latencies, share)

    def of(self, status: int, share: float) -> float:
        """The same, of the answers with this status."""
        return _quantile(self.by_status.get(str(status), []), share)


def _quantile(seconds: list[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 if ordered else float("inf")


def run(plan: Plan) -> Result:
    """Carry `plan` out in another process, which stops by itself."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__))],
        input=json.dumps(asdict(plan)),
        capture_output=True,
        text=True,
        timeout=plan.seconds + GIVE_UP + 30,
        check=True,
    )
    return Result(**json.loads(done.stdout))


class _Connections:
    """Kept-alive connections; one that is idle is used before another is opened."""

    def __init__(self, host: str, port: int, most: int) -> None:
        self._address = host, port
        self._idle: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._free = asyncio.Semaphore(most)

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        async with self._free:
            reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection(*self._address)
            try:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                status, length = _parse(head)
                body = await reader.readexactly(length)
            except BaseException:
                writer.close()
                raise
            self._idle.append((reader, writer))
            return status, body

    async def warm(self, request: bytes, count: int) -> None:
        await asyncio.gather(*(self.exchange(request) for _ in range(count)))

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()


def _parse(head: bytes) -> tuple[int, int]:
    lines = head.split(b"\r\n")
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(lines[0].split()[1]), int(value)
    raise ValueError("an answer without content-length")


def _requests(plan: Plan) -> list[bytes]:
    parts = urlsplit(plan.url)
    made = []
    for number, body in enumerate(plan.bodies or [""]):
        data = body.encode()
        extra = plan.each[number] if plan.each else {}
        headers = {"host": parts.netloc, "content-length": str(len(data)), **plan.headers, **extra}
        path = plan.paths[number] if plan.paths else parts.path or "/"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        made.append(f"{plan.method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + data)
    return made


async def carry_out(plan: Plan) -> Result:
    """The load itself; bounded by the plan's seconds and `GIVE_UP`."""
    parts = urlsplit(plan.url)
    connections = _Connections(parts.hostname or "127.0.0.1", parts.port or 80, plan.connections)
    health = f"GET /health HTTP/1.1\r\nhost: {parts.netloc}\r\n\r\n".encode()
    await connections.warm(health, min(8, plan.connections))
    requests = _requests(plan)
    latencies: list[float] = []
    by_status: defaultdict[str, list[float]] = defaultdict(list)
    errors: Counter[str] = Counter()
    answers: list[tuple[float, str]] = []
    late = 0.0

    async def one(request: bytes, due: float) -> None:
        try:
            async with asyncio.timeout(GIVE_UP):
                status, body = await connections.exchange(request)
        except (OSError, EOFError, ValueError) as exc:  # TimeoutError is an OSError
            errors[type(exc).__name__] += 1
            return
        latencies.append(time.perf_counter() - due)
        by_status[str(status)].append(latencies[-1])
        if plan.keep:
            answers.append((time.time(), body.decode()))

    tasks = []
    begun = time.perf_counter() + 0.05
    for number in range(int(plan.rate * plan.seconds)):
        due = begun + number / plan.rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        late = max(late, time.perf_counter() - due)
        tasks.append(asyncio.create_task(one(requests[number % len(requests)], due)))
    await asyncio.gather(*tasks)
    connections.close()
    statuses = {status: len(found) for status, found in by_status.items()}
    return Result(latencies, statuses, dict(errors), late, answers, dict(by_status))


if __name__ == "__main__":
    json.dump(asdict(asyncio.run(carry_out(Plan(**json.load(sys.stdin))))), sys.stdout)
