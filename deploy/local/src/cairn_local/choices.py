"""Which settings of the environment a stack was started with, so that a later `up` can say what differs."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.util import find_spec

from pydantic_settings import BaseSettings

PROCESSES = {
    "cairn_gateway": "GatewaySettings",
    "cairn_ingest_consumer": "IngestSettings",
    "cairn_embedder": "EmbedderSettings",
    "cairn_retriever": "RetrieverSettings",
    "cairn_answerer": "AnswererSettings",
    "cairn_local": "StackSettings",
}
GIVEN_BY_THE_STACK = frozenset(
    (
        *("HOST", "PORT", "MONGO_URI", "PG_DSN", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS"),
        *("EMBEDDER_URL", "RETRIEVER_URL", "ANSWERER_URL"),
        *("CAIRN_BOOTSTRAP_API_KEY", "INBOX", "ALLOW_LOCAL_REPOS"),
    )
)
"""What the user's environment says about these counts for nothing here (`plan`)."""


def names() -> frozenset[str]:
    """Every variable that a process of the stack reads from the user's environment."""
    found: set[str] = set()
    for package, name in PROCESSES.items():
        if find_spec(package) is not None:
            settings: type[BaseSettings] = getattr(import_module(f"{package}.settings"), name)
            found.update(field.upper() for field in settings.model_fields)
    return frozenset(found) - GIVEN_BY_THE_STACK


def digests(environ: Mapping[str, str], known: Collection[str], salt: str) -> dict[str, str]:
    """Name and keyed hash of each setting that `environ` gives; an empty value counts as none, as the settings do.

    Values may be secrets, so they are not kept themselves.
    """
    return {
        name: hmac.new(salt.encode(), value.encode(errors="surrogateescape"), hashlib.sha256).hexdigest()
        for name in sorted(known)
        if (value := environ.get(name, ""))
    }


def new_salt() -> str:
    """The key of one run's hashes."""
    return secrets.token_hex(16)


def differing(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names whose value is another one, or is given in one of the two only."""
    return sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
