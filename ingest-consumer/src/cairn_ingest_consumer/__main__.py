"""`python -m cairn_ingest_consumer`: settings, logging, run; with `spaces`, show and choose embedding models."""

from __future__ import annotations

import asyncio
import sys

from cairn_ingest_consumer import spaces_command
from cairn_ingest_consumer.app import SERVICE, run
from cairn_ingest_consumer.settings import IngestSettings
from cairn_shared import logging
from cairn_shared.errors import CairnError
from cairn_shared.settings import load


def main() -> None:
    """Exit codes: 0 stopped, 2 a setting is wrong, 70 the consumer failed and should be started again."""
    if sys.argv[1:2] == ["spaces"]:
        _spaces(sys.argv[2:])
        return
    settings = load(IngestSettings)
    logging.configure(SERVICE, settings.log_level)
    try:
        asyncio.run(run(settings))
    except CairnError as exc:
        logging.get_logger(__name__).critical("ending", reason=exc.detail, exc_info=exc.__cause__)
        sys.exit(70)


def _spaces(arguments: list[str]) -> None:
    """Exit code 1 with one line when it cannot be done."""
    logging.configure(SERVICE, "WARNING")
    try:
        asyncio.run(spaces_command.run(arguments))
    except CairnError as exc:
        sys.exit(exc.detail)


if __name__ == "__main__":
    main()
