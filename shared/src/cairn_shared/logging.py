"""JSON logs on standard output, one object a line, with the request and trace ids."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog

from cairn_shared import context

NOISY = ("httpx", "httpcore", "uvicorn.access", "pymongo", "asyncio", "urllib3")


def _request_ids(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if rid := context.request_id.get():
        event.setdefault("request_id", rid)
    if trace := context.traceparent.get():
        event.setdefault("trace_id", trace.split("-")[1])
    return event


def _dumps(event: Any, **_: Any) -> str:
    return orjson.dumps(event, default=str).decode()


def configure(service: str, level: str = "INFO") -> None:
    """Send every log of this process, ours and the libraries', to standard output as JSON."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _request_ids,
    ]
    structlog.configure(
        processors=[
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                lambda _logger, _method, event: {"service": service, **event},
                structlog.processors.JSONRenderer(serializer=_dumps),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers[:] = []
        logging.getLogger(name).propagate = True


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger; pass facts as keywords: `log.info("relayed", runbook_id=..., revision=...)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
