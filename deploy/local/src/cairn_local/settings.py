"""What a user may choose about the one-machine stack, each an environment variable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from cairn_shared.settings import Settings


class StackSettings(Settings):
    """Ports are wishes: another free one is taken, and kept, where something else listens already."""

    consumers: Annotated[int, Field(ge=1, le=16, description="Replicas of the ingest consumer.")] = 3
    broker: Annotated[
        Literal["embedded", "apache"], Field(description="The Kafka broker: Tansu in memory, or Apache Kafka.")
    ] = "embedded"
    kafka_home: Annotated[
        Path | None, Field(description="An unpacked Apache Kafka, for BROKER=apache.", validate_default=True)
    ] = None
    cairn_port: Annotated[int, Field(ge=1, le=65535, description="Port of the gateway.")] = 8000

    @field_validator("kafka_home")
    @classmethod
    def _apache_needs_a_home(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if info.data.get("broker") == "apache" and value is None:
            raise PydanticCustomError(
                "missing_home", "BROKER=apache needs KAFKA_HOME, the folder of an unpacked Apache Kafka"
            )
        return value
