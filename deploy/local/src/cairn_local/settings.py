"""What a user may choose about the one-machine stack, each an environment variable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from cairn_shared.settings import Settings


class StackSettings(Settings):
    """Ports are wishes: another free one is taken, and kept, where something else listens already."""

    consumers: Annotated[int, Field(ge=1, le=16, description="Replicas of the ingest consumer.")] = 3
    broker: Annotated[
        Literal["embedded", "apache"], Field(description="The Kafka broker: Tansu in memory, or Apache Kafka.")
    ] = "embedded"
    kafka_home: Annotated[Path | None, Field(description="An unpacked Apache Kafka, for BROKER=apache.")] = None
    cairn_port: Annotated[int, Field(ge=1, le=65535, description="Port of the gateway.")] = 8000

    @model_validator(mode="after")
    def _apache_needs_a_home(self) -> Self:
        if self.broker == "apache" and self.kafka_home is None:
            raise ValueError("BROKER=apache needs KAFKA_HOME, the folder of an unpacked Apache Kafka")
        return self
