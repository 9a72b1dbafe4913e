"""No error of asyncpg reaches a caller untranslated."""

from __future__ import annotations

import inspect

import asyncpg
import pytest

from cairn_shared.errors import CairnError, PermanentError, TransientError, Unavailable
from cairn_shared.postgres import FAILURES, translate


def all_of(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(all_of(one) for one in kind.__subclasses__()))


ERRORS = sorted(
    {
        error
        for name, error in inspect.getmembers(asyncpg.exceptions, inspect.isclass)
        if issubclass(error, Exception) and not issubclass(error, Warning) and not name.startswith("_")
    },
    key=lambda error: error.__name__,
)


def test_every_error_of_the_driver_becomes_one_of_ours() -> None:
    assert len(ERRORS) > 200
    for error in ERRORS:
        made = error.__new__(error)
        Exception.__init__(made, "what it says")
        assert isinstance(made, FAILURES), error
        assert isinstance(translate(made), CairnError), error


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (asyncpg.InternalClientError("cannot switch to state 15"), Unavailable),
        (asyncpg.InterfaceError("connection is closed"), Unavailable),
        (asyncpg.AdminShutdownError("terminating"), Unavailable),
        (ConnectionResetError(), Unavailable),
        (TimeoutError(), Unavailable),
        (asyncpg.SerializationError("again"), TransientError),
        (asyncpg.UniqueViolationError("twice"), PermanentError),
        (asyncpg.UndefinedTableError("none"), TransientError),
    ],
)
def test_what_is_away_what_may_pass_and_what_never_will(error: Exception, becomes: type[CairnError]) -> None:
    assert isinstance(translate(error), becomes)


def test_what_is_no_error_of_the_driver_is_raised_as_it_is() -> None:
    with pytest.raises(KeyError):
        translate(KeyError("ours"))
