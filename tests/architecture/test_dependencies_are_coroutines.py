"""FastAPI hands plain dependencies to a thread: under load every request would wait for one, unseen in any profile."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest


@pytest.mark.parametrize("service", ["gateway", "answerer", "retriever", "embedder"])
def test_dependencies_of_a_service_are_coroutine_functions(service: str) -> None:
    module = import_module(f"cairn_{service}.dependencies")
    given = [
        function
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and {"request", "state"} & set(inspect.signature(function).parameters)
    ]
    assert given
    assert [function.__name__ for function in given if not inspect.iscoroutinefunction(function)] == []
