"""A consumer process for tests: appends what it handles to a file, `partition offset value`, one line a record."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from cairn_shared.kafka.confluent import ConfluentConsumer
from cairn_shared.kafka.engine import ConsumerEngine
from cairn_shared.kafka.policy import ConsumerPolicy, GroupProtocol
from cairn_shared.kafka.records import Record
from cairn_shared.settings import KafkaSettings

# Apache Kafka allows no session below 6 s; Tansu holds a group's first join for half of it.
SESSION_TIMEOUT = 6.0 if os.environ.get("BROKER") == "apache" else 2.0


def quick_policy(protocol: GroupProtocol = "classic") -> ConsumerPolicy:
    return ConsumerPolicy(
        batch_wait=0.02,
        session_timeout=SESSION_TIMEOUT,
        drain_timeout=5.0,
        commit_interval=0.3,
        protocol=protocol,
        stuck_after=60,
    )


class AppendToFile:
    def __init__(self, path: str, delay: float) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._delay = delay

    async def handle(self, records: Sequence[Record]) -> None:
        await asyncio.sleep(self._delay)
        lines = "".join(f"{r.partition} {r.offset} {(r.value or b'').decode()}\n" for r in records)
        os.write(self._file, lines.encode())


async def main(bootstrap: str, topic: str, group: str, path: str, protocol: GroupProtocol) -> None:
    settings = KafkaSettings(kafka_bootstrap_servers=bootstrap)
    policy = quick_policy(protocol)
    engine = ConsumerEngine(
        lambda: ConfluentConsumer(settings, group, f"member-{os.getpid()}", policy),
        [topic],
        AppendToFile(path, 0.05),
        policy=policy,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, engine.stop)
    await engine.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5], sys.argv[5]))  # type: ignore[call-arg,arg-type]
