"""Vectors kept on disk, by the model and the text: an evaluation embeds each text once in its life.

Stands before the embedder's HTTP interface, so that the ingest consumer and the retriever are used as they are.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import orjson


class CachingTransport(httpx.AsyncBaseTransport):
    """Answers `POST /embed` from a file where it can; everything else goes to the embedder at `url`."""

    def __init__(self, url: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._url = httpx.URL(url)
        self._inner = httpx.AsyncHTTPTransport()
        self._file = sqlite3.connect(folder / "vectors.sqlite", timeout=60, isolation_level=None)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, answer BLOB) WITHOUT ROWID")
        self._fingerprint: str | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The embedder's answer, or one made of what it answered before."""
        if request.url.path != "/embed":
            return await self._inner.handle_async_request(request)
        body = orjson.loads(await request.aread())
        keys = [await self._key(text, body) for text in body["texts"]]
        known = {key: answer for key in dict.fromkeys(keys) if (answer := self._recall(key)) is not None}
        missing = {key: text for key, text in zip(keys, body["texts"], strict=True) if key not in known}
        if missing:
            answer = await self._ask(request, {**body, "texts": list(missing.values())})
            if isinstance(answer, httpx.Response):
                return answer
            for place, key in enumerate(missing):
                known[key] = {
                    "fingerprint": answer["fingerprint"],
                    "dimension": answer["dimension"],
                    "vectors": answer["vectors"][place],
                    "tokens": answer["tokens"][place],
                    "truncated": answer["truncated"][place],
                }
                self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (key, orjson.dumps(known[key])))
        first = known[keys[0]]
        rows = {name: [known[key][name] for key in keys] for name in ("vectors", "tokens", "truncated")}
        made = {"fingerprint": first["fingerprint"], "dimension": first["dimension"], **rows}
        return httpx.Response(200, content=orjson.dumps(made), headers={"content-type": "application/json"})

    async def _ask(self, request: httpx.Request, body: dict[str, Any]) -> Any:
        headers = {"content-type": "application/json"}
        inner = httpx.Request(
            "POST", request.url, content=orjson.dumps(body), headers=headers, extensions=request.extensions
        )
        response = await self._inner.handle_async_request(inner)
        content = await response.aread()
        if response.status_code != 200:
            return httpx.Response(response.status_code, content=content, headers={"content-type": "application/json"})
        return orjson.loads(content)

    async def _key(self, text: str, body: dict[str, Any]) -> str:
        if self._fingerprint is None:
            asked = httpx.Request("GET", self._url.copy_with(path="/model"))
            answer = await self._inner.handle_async_request(asked)
            self._fingerprint = str(orjson.loads(await answer.aread())["fingerprint"])
        kind = (self._fingerprint, body.get("kind"), body.get("truncate"), text)
        return hashlib.sha256(orjson.dumps(kind)).hexdigest()

    def _recall(self, key: str) -> Any:
        row = self._file.execute("SELECT answer FROM vectors WHERE key = ?", (key,)).fetchone()
        return orjson.loads(row[0]) if row else None

    async def aclose(self) -> None:
        """Close the file and the connections."""
        self._file.close()
        await self._inner.aclose()


def caching_client(url: str, folder: Path) -> httpx.AsyncClient:
    """A client of the embedder at `url` that remembers in `folder`."""
    return httpx.AsyncClient(base_url=url, transport=CachingTransport(url, folder), timeout=300, trust_env=False)
