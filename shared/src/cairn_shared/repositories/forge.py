"""HTTP to a forge's API: one host, bounded bodies, rate limits and refusals as our errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import orjson

from cairn_shared.errors import Forbidden, TooLarge, TransientError, Unavailable
from cairn_shared.http import retry_after
from cairn_shared.repositories.reading import BranchNotFound

MAX_BODY = 64 * 1024 * 1024
"""Largest answer, in bytes: a tree of 100,000 entries has about 30 MB."""

MAX_REDIRECTS = 3
_LONGEST_WAIT = 3600.0


class Forge:
    """The API at `base`. Redirects are followed inside its own origin only, so a token never leaves it.

    `spare`: the share of the rate limit that is left to others, who use the same token for what cannot wait.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        base: str,
        headers: Mapping[str, str],
        now: Callable[[], float] = time.time,
        spare: float = 0.0,
    ) -> None:
        self._client = client
        self._base = base.rstrip("/") + "/"
        self._origin = _origin(self._base)
        self._headers = dict(headers)
        self._now = now
        self._spare = spare
        self._rests_until = 0.0

    async def get(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        accept: str = "application/json",
        etag: str | None = None,
        limit: int = MAX_BODY,
    ) -> httpx.Response:
        """GET `path` under the base, or an absolute URL of the same origin. 304 comes back as it is.

        Raises:
            BranchNotFound: 404, and 409 for a repository without a commit.
            Forbidden: 401 or 403 that is no rate limit, or a redirect to another origin.
            TransientError: 429, a rate limit, 5xx, or no answer.
            TooLarge: the body is over `limit` bytes.
        """
        if (rest := self._rests_until - self._now()) > 0:
            raise TransientError("what is left of the rate limit is for syncs", retry_after=min(rest, _LONGEST_WAIT))
        url = urljoin(self._base, path)
        headers = {**self._headers, "accept": accept}
        if etag:
            headers["if-none-match"] = etag
        for _ in range(MAX_REDIRECTS + 1):
            if _origin(url) != self._origin:
                raise Forbidden(f"the repository's host redirects to another: {urlsplit(url).netloc}")
            response = await self._request(url, params, headers, limit)
            if response.status_code not in {301, 302, 303, 307, 308}:
                self._check(response)
                self._leave_some(response)
                return response
            url, params = urljoin(url, response.headers.get("location", "")), None
        raise TransientError("the repository's host redirects without end")

    async def json(self, path: str, **options: Any) -> Any:
        """GET and parse JSON; `TransientError` when the answer is none."""
        return parsed(await self.get(path, **options))

    async def _request(
        self, url: str, params: Mapping[str, str | int] | None, headers: Mapping[str, str], limit: int
    ) -> httpx.Response:
        request = self._client.build_request("GET", url, params=params, headers=headers)
        try:
            response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > limit:
                        raise TooLarge(f"over {limit} bytes", field="size")
            finally:
                await response.aclose()
        except httpx.TimeoutException as exc:
            raise Unavailable("repository", "the repository's host timed out") from exc
        except httpx.HTTPError as exc:
            raise Unavailable("repository", "the repository's host cannot be reached") from exc
        plain = {
            name: value
            for name, value in response.headers.items()
            if name not in {"content-encoding", "content-length", "transfer-encoding"}
        }
        return httpx.Response(response.status_code, headers=plain, content=bytes(body), request=request)

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if status < 300 or status == 304:
            return
        wait = self._limited(response)
        if wait is not None:
            raise TransientError("the repository's host limits our requests", retry_after=wait)
        if status in {404, 409}:
            raise BranchNotFound("no such repository or branch, or the token may not see it")
        if status in {401, 403}:
            raise Forbidden(f"the repository's host refuses the token, or asks for one ({status})")
        raise TransientError(f"the repository's host answered {status}", retry_after=retry_after(response))

    def _limited(self, response: httpx.Response) -> float | None:
        """Seconds to wait where the answer is a rate limit (docs.github.com, "Rate limits"; docs.gitlab.com)."""
        told = retry_after(response)
        if response.status_code == 429:
            return min(told if told is not None else self._until_reset(response), _LONGEST_WAIT)
        if response.status_code == 403 and (told is not None or response.headers.get("x-ratelimit-remaining") == "0"):
            return min(told if told is not None else self._until_reset(response), _LONGEST_WAIT)
        return None

    def _leave_some(self, response: httpx.Response) -> None:
        limit, remaining = (
            response.headers.get(f"x-ratelimit-{name}") or response.headers.get(f"ratelimit-{name}") or ""
            for name in ("limit", "remaining")
        )
        if limit.isdigit() and remaining.isdigit() and int(remaining) < self._spare * int(limit):
            self._rests_until = self._now() + self._until_reset(response)

    def _until_reset(self, response: httpx.Response) -> float:
        reset = response.headers.get("x-ratelimit-reset") or response.headers.get("ratelimit-reset") or ""
        return max(1.0, float(reset) - self._now()) if reset.isdigit() else 60.0


def parsed(response: httpx.Response) -> Any:
    """The JSON of an answer; `TransientError` when it is none."""
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError as exc:
        raise TransientError("the repository's host gave an answer that is not JSON") from exc


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
