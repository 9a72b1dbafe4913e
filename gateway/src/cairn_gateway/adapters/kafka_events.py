"""`Publisher` and `RawPublisher` over the shared producer."""

from __future__ import annotations

from collections.abc import Sequence

from cairn_shared.kafka.producer import EventProducer


class KafkaPublisher:
    """Produces with acks=all and waits for the acknowledgement."""

    def __init__(self, producer: EventProducer) -> None:
        self._producer = producer

    async def publish(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> None:
        await self._producer.send(topic, key=key, value=value, headers=headers)
