"""Requests to the gateway: one connection pool per command, failures as our errors."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cairn_gateway.cli import screen
from cairn_gateway.cli.exits import CliError, Negative, NotAllowed, Rejected, Unreachable
from cairn_gateway.cli.target import KEY_VARIABLE, URL_VARIABLE, Target, find_target

if TYPE_CHECKING:
    import httpx

CONNECT_TIMEOUT = 3.0
Json = dict[str, Any]


class Cairn:
    """A Cairn somewhere. Paths are relative to its address; time-outs are in seconds."""

    def __init__(
        self,
        target: Target,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        import httpx

        self.target = target
        self._sleep = sleep
        self._monotonic = monotonic
        self._met = False
        self._http = httpx.Client(**connection(target))

    @property
    def met(self) -> bool:
        """Whether a request ever reached it."""
        return self._met

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        patience: float = 0.0,
        on_wait: Callable[[Unreachable], None] | None = None,
    ) -> httpx.Response:
        """One request; `body` is sent as JSON.

        A request that may be repeated gets `patience`: while Cairn heals or is overloaded it is sent again,
        with back-off, for so many seconds. A Cairn to which no connection was ever made is waited for only where its
        stack's supervisor lives and will start it again.

        Raises:
            Negative: not found. Rejected: bad input. NotAllowed: credentials. Unreachable: no useful answer.
        """
        started = self._monotonic()
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._once(
                    method, path, body=body, content=content, headers=headers, params=params, timeout=timeout
                )
            except Unreachable as exc:
                wait = exc.retry_after if exc.retry_after is not None else _backoff(attempt)
                if not (self._met or self.target.stack_runs()) or self._monotonic() + wait - started > patience:
                    raise
                if on_wait:
                    on_wait(exc)
                self._sleep(wait)

    def get(self, path: str, *, params: Mapping[str, Any] | None = None, timeout: float = 30.0) -> Json:
        """The JSON object at `path`."""
        return as_object(self.request("GET", path, params=params, timeout=timeout))

    def pages(self, path: str, member: str, *, params: Mapping[str, Any] | None = None) -> Iterator[Json]:
        """Every item of a list that comes in pages (`next` is the following page's `after`); None is not sent."""
        query = {name: value for name, value in (params or {}).items() if value is not None}
        while True:
            page = self.get(path, params=query)
            yield from page.get(member, [])
            if not page.get("next"):
                return
            query["after"] = page["next"]

    @contextmanager
    def stream(self, path: str, body: Any, *, timeout: float) -> Iterator[httpx.Response]:
        """POST and read the answer while it arrives."""
        import httpx

        try:
            with self._http.stream(
                "POST", path, json=body, timeout=timeouts(timeout), headers={"accept": "text/event-stream"}
            ) as response:
                if response.status_code >= 300:
                    response.read()
                    raise_for(response, self.target)
                yield response
        except httpx.HTTPError as exc:
            raise unreachable(exc, self.target, timeout) from exc

    @contextmanager
    def reading(self, path: str, *, params: Mapping[str, Any], timeout: float) -> Iterator[httpx.Response]:
        """GET and read the answer while it arrives."""
        import httpx

        try:
            with self._http.stream("GET", path, params=params, timeout=timeouts(timeout)) as response:
                if response.status_code >= 300:
                    response.read()
                    raise_for(response, self.target)
                yield response
        except httpx.HTTPError as exc:
            raise unreachable(exc, self.target, timeout) from exc

    def _once(
        self,
        method: str,
        path: str,
        *,
        body: Any,
        content: bytes | None,
        headers: Mapping[str, str] | None,
        params: Mapping[str, Any] | None,
        timeout: float,
    ) -> httpx.Response:
        import httpx

        try:
            response = self._http.request(
                method, path, json=body, content=content, headers=headers, params=params, timeout=timeouts(timeout)
            )
        except httpx.HTTPError as exc:
            self._met = self._met or not isinstance(exc, (httpx.ConnectError, httpx.ConnectTimeout))
            raise unreachable(exc, self.target, timeout) from exc
        self._met = True
        raise_for(response, self.target)
        return response


def connection(target: Target) -> dict[str, Any]:
    """The arguments of an httpx client of `target`, whether it blocks or not."""
    headers = {"user-agent": "cairn-cli", "accept": "application/json"}
    if target.key:
        headers["authorization"] = f"Bearer {target.key}"
    return {
        "base_url": target.url,
        "headers": headers,
        "trust_env": not target.local,  # a proxy for the world must not catch calls to this machine
        "verify": target.url.startswith("https"),  # without TLS there is nothing to verify and no store to load
    }


def this_target() -> Target:
    """The Cairn of this folder and environment; warnings about it go to stderr."""
    target = find_target(os.environ, Path.cwd())
    for warning in target.warnings:
        screen.note(warning, style="yellow")
    return target


@contextmanager
def connect() -> Iterator[Cairn]:
    """A client of the Cairn of this folder and environment."""
    cairn = Cairn(this_target())
    try:
        yield cairn
    finally:
        cairn.close()


def as_object(response: httpx.Response) -> Json:
    """The response's JSON object.

    Raises:
        Unreachable: what answered is no Cairn.
    """
    try:
        value = response.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Unreachable(f"{response.request.url} gave no JSON object", hint=f"is {URL_VARIABLE} a Cairn gateway?")
    return value


def raise_for(response: httpx.Response, target: Target) -> None:
    """Turn an error status into our error, saying what the problem document says."""
    status = response.status_code
    if status < 300:
        return
    if status < 400:
        raise Unreachable(
            f"{target.url} redirects to {response.headers.get('location', 'elsewhere')}",
            hint=f"set {URL_VARIABLE} to the address itself: keys are not sent along redirects",
        )
    problem = _problem(response)
    detail = str(problem.get("detail") or f"Cairn answered {status}")
    field = problem.get("field")
    if field:
        detail = f"{as_typed(str(field))}: {detail.removeprefix(f'{field}:').lstrip()}"
    raise _error(status, detail, response, target, problem)


def as_typed(field: str) -> str:
    """The API's name of a field as the user of the command line knows it: an option, or an argument in capitals."""
    place, _, name = field.partition(".")
    if place == "filters" and name:
        return f"--{name}"
    return name.upper() if place == "path" and name else field


def _error(status: int, detail: str, response: httpx.Response, target: Target, problem: Json) -> CliError:
    if status == 401:
        hint = f"set {KEY_VARIABLE}" + ("; inside the checkout the key of `make run` is found" if target.local else "")
        return NotAllowed(detail, hint=hint)
    if status == 403:
        return NotAllowed(detail)
    if status == 404:
        return Negative(detail)
    if status == 429 or status >= 500:
        request_id = problem.get("request_id")
        return Unreachable(
            detail, retry_after=_retry_after(response), hint=f"request id {request_id}" if request_id else None
        )
    return Rejected(detail, status=status, field=problem.get("field"))


def _problem(response: httpx.Response) -> Json:
    try:
        value = json.loads(response.content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _backoff(attempt: int) -> float:
    from cairn_shared.retry import Backoff  # brings structlog, which a command that succeeds at once need not load

    return Backoff(base=0.25, limit=5.0).delay(attempt)


def timeouts(seconds: float) -> httpx.Timeout:
    """`seconds` for an answer; whether there is anybody at all is known sooner."""
    import httpx

    return httpx.Timeout(seconds, connect=min(CONNECT_TIMEOUT, seconds))


def unreachable(exc: httpx.HTTPError, target: Target, timeout: float) -> Unreachable:
    """A failed connection as our error, with what to do about it."""
    import httpx

    start = "start it with `make run`" if target.local else f"is {URL_VARIABLE} right?"
    if isinstance(exc, (httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout)):
        return Unreachable(f"Cairn at {target.url} gave no answer within {timeout:g} s")
    if isinstance(exc, (httpx.ConnectError, httpx.ConnectTimeout)):
        return Unreachable(f"cannot connect to Cairn at {target.url}: {_cause(exc)}", hint=start)
    return Unreachable(f"the connection to Cairn at {target.url} broke: {_cause(exc)}", hint=start)


def _cause(exc: BaseException) -> str:
    """The system's own words for what went wrong, where there are any."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(exc).rstrip(".") or type(exc).__name__
