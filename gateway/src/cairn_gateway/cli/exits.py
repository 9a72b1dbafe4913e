"""Exit codes, and the errors that lead to them."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script may rely on; the numbers never change."""

    OK = 0
    NEGATIVE = 1
    USAGE = 2
    REJECTED = 3
    UNREACHABLE = 4
    NOT_ALLOWED = 5


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.NEGATIVE: "the answer is no: refused, not found, no hits, a difference, a part that is down",
    ExitCode.USAGE: "wrong usage",
    ExitCode.REJECTED: "Cairn or the command rejected the input",
    ExitCode.UNREACHABLE: "Cairn cannot be reached, or cannot answer now",
    ExitCode.NOT_ALLOWED: "no API key, a wrong one, or its role is not enough",
}


class CliError(Exception):
    """Ends the command with `code`; `message` and the optional `hint` go to stderr."""

    code = ExitCode.NEGATIVE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Negative(CliError):
    """The question was understood, and the answer is no."""


class UsageError(CliError):
    """The command line, an environment variable or a file it names cannot be used."""

    code = ExitCode.USAGE


class Rejected(CliError):
    """The input was refused; when Cairn refused it, `status` is the HTTP status and `field` what it named."""

    code = ExitCode.REJECTED

    def __init__(
        self, message: str, *, hint: str | None = None, status: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.field = field


class Unreachable(CliError):
    """No useful answer came; trying again later may help. `retry_after` is in seconds."""

    code = ExitCode.UNREACHABLE

    def __init__(self, message: str, *, hint: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class NotAllowed(CliError):
    """Credentials are missing, wrong or not enough."""

    code = ExitCode.NOT_ALLOWED
