"""The errors of Cairn, split by what the caller should do about them.

    CairnError
    ├── InvalidInput          the client must change the request (422; names the field)
    │   └── TooLarge          ... and make it smaller (413)
    ├── Unauthenticated       no or wrong credentials (401)
    ├── Forbidden             known, but may not (403)
    ├── NotFound              no such thing (404)
    ├── Conflict              somebody else changed it, or it exists already (409)
    ├── PreconditionFailed    If-Match names another revision (412)
    ├── TooManyRequests       slow down (429)
    ├── PermanentError        the same record will fail the same way for ever: dead-letter it
    └── TransientError        may work later: wait and try again, never dead-letter (503)
        ├── Unavailable       ... because a named dependency is away
        └── Overloaded        ... because there is more to do than can be done in time

Adapters translate their driver's errors into these at the edge (`raise Unavailable("postgres") from exc`);
`cairn_shared.web.problem` turns them into RFC 9457 problem details.
"""

from __future__ import annotations


class CairnError(Exception):
    """Base of every error Cairn raises on purpose. `detail` is safe to show to a client."""

    status = 500
    title = "Internal error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class InvalidInput(CairnError):
    """The request or record is wrong; `field` names what is wrong, `detail` how to mend it."""

    status = 422
    title = "Invalid input"

    def __init__(self, detail: str, *, field: str | None = None) -> None:
        super().__init__(detail)
        self.field = field


class TooLarge(InvalidInput):
    """The body or a field is over its limit."""

    status = 413
    title = "Too large"


class Unauthenticated(CairnError):
    """No credentials, or wrong ones. The detail never says which."""

    status = 401
    title = "Not authenticated"


class Forbidden(CairnError):
    """The credentials are good, the role is not enough."""

    status = 403
    title = "Not allowed"


class NotFound(CairnError):
    """The thing asked for does not exist (or was deleted)."""

    status = 404
    title = "Not found"


class Conflict(CairnError):
    """The request contradicts the present state."""

    status = 409
    title = "Conflict"


class PreconditionFailed(CairnError):
    """`If-Match` or `If-None-Match` did not hold."""

    status = 412
    title = "Precondition failed"


class TooManyRequests(CairnError):
    """A rate limit was reached; `retry_after` is in seconds."""

    status = 429
    title = "Too many requests"

    def __init__(self, detail: str, *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class PermanentError(CairnError):
    """Processing this record can never succeed. The consumer dead-letters it and goes on.

    `stage` is one of decode, validate, fetch, chunk, embed, write, too-large.
    """

    title = "Cannot be processed"

    def __init__(self, detail: str, *, stage: str) -> None:
        super().__init__(detail)
        self.stage = stage


class TransientError(CairnError):
    """The same attempt may succeed later. The consumer pauses and tries again; HTTP answers 503.

    `retry_after` is the wait, in seconds, that the dependency asked for, if it did.
    """

    status = 503
    title = "Temporarily unavailable"

    def __init__(self, detail: str, *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Unavailable(TransientError):
    """A dependency is away; `dependency` is its name in `/health/ready`."""

    def __init__(self, dependency: str, detail: str | None = None, *, retry_after: float | None = None) -> None:
        super().__init__(detail or f"{dependency} cannot be reached", retry_after=retry_after)
        self.dependency = dependency


class Overloaded(TransientError):
    """There is more to do than can be done in time: refused at once, before anything was begun."""

    title = "Too busy"

    def __init__(
        self, detail: str = "too much is asked at once: try again in a moment", retry_after: float = 1
    ) -> None:
        super().__init__(detail, retry_after=retry_after)
