"""Dead letters to `<topic>.dlq`, acknowledged by the broker."""

from __future__ import annotations

from cairn_shared.errors import TooLarge, TransientError
from cairn_shared.events import dead_letter_topic
from cairn_shared.kafka.dead_letters import Failure, dead_letter_headers
from cairn_shared.kafka.producer import EventProducer
from cairn_shared.kafka.records import Record


class DeadLetterTopic:
    """As `ports.DeadLetters`."""

    def __init__(
        self, producer: EventProducer, *, group: str, app_version: str, pipeline: str, git_sha: str | None
    ) -> None:
        self._producer = producer
        self._group = group
        self._app_version = app_version
        self._pipeline = pipeline
        self._git_sha = git_sha

    async def send(self, record: Record, failure: Failure) -> None:
        """Key, value and headers go as they are; the same key puts it on the same partition number.

        Raises:
            TransientError: not acknowledged. A topic that is too narrow for it is an operator's error that waiting
                outlives, not a reason to lose the record.
        """
        headers = dead_letter_headers(
            record,
            failure,
            group=self._group,
            app_version=self._app_version,
            pipeline=self._pipeline,
            git_sha=self._git_sha,
        )
        topic = dead_letter_topic(record.topic)
        try:
            await self._producer.send(topic, key=record.key, value=record.value, headers=headers)
        except TooLarge as exc:
            raise TransientError(f"{topic}: max.message.bytes is too small for a dead letter: {exc.detail}") from exc
