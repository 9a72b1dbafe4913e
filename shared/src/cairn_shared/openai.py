"""Where an OpenAI-compatible endpoint is and how it is shown its key: for chat and for embeddings alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import httpx
from pydantic import SecretStr


@dataclass(frozen=True)
class Endpoint:
    """Where a model is: the address without a slash at its end, the query, and the header that carries the key."""

    address: str
    query: Mapping[str, str]
    key_header: str

    @classmethod
    def of(cls, url: str, key_header: str | None = None) -> Self:
        """From `url`, which for Azure ends with `?api-version=...`. Azure has its keys in a header of its own."""
        parsed = httpx.URL(url)
        query = dict(parsed.params)
        chosen = key_header or ("api-key" if "api-version" in query else "authorization")
        return cls(str(parsed.copy_with(query=None)).rstrip("/"), query, chosen.lower())

    def headers(self, key: SecretStr | None) -> dict[str, str]:
        """How `key` is shown."""
        if key is None:
            return {}
        shown = key.get_secret_value()
        return {self.key_header: f"Bearer {shown}" if self.key_header == "authorization" else shown}
