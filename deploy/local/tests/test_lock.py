"""deploy/lock.py: what is declared is pinned, and the pins fit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

SCRIPT = Path(__file__).resolve().parents[2] / "lock.py"


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cairn_lock_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def wrong(lock: ModuleType, pinned: dict[str, str], here: dict[str, str], *texts: str) -> list[str]:
    wanted = [lock.Declared(Requirement(text), "x/pyproject.toml") for text in texts]
    return list(lock.problems(pinned, wanted, here, here))


def test_a_declared_dependency_without_a_pin_is_named_with_its_file(lock: ModuleType) -> None:
    assert wrong(lock, {}, {}, "httpx>=0.27") == ["httpx>=0.27 (x/pyproject.toml) is not pinned"]


def test_a_pin_that_the_declaration_does_not_allow_is_named(lock: ModuleType) -> None:
    assert wrong(lock, {"httpx": "0.20"}, {"httpx": "0.20"}, "httpx>=0.27") == [
        "httpx>=0.27 (x/pyproject.toml) does not allow the pinned 0.20"
    ]


def test_what_is_needed_in_turn_must_be_pinned_to_what_is_installed(lock: ModuleType) -> None:
    pinned = {"httpx": "1", "h11": "1"}
    assert wrong(lock, pinned, {"httpx": "1", "h11": "2", "anyio": "4"}, "httpx") == [
        "anyio 4 is installed and needed, but not pinned",
        "h11 is pinned to 1, but 2 is installed",
    ]


def test_a_pin_that_nobody_needs_is_named(lock: ModuleType) -> None:
    assert wrong(lock, {"left-over": "1"}, {}) == ["left-over is pinned, but nothing needs it"]


def test_pins_that_fit_are_right(lock: ModuleType) -> None:
    assert wrong(lock, {"httpx": "0.28"}, {"httpx": "0.28"}, "HTTPX>=0.27", "httpx<1") == []


def test_the_closure_follows_extras_and_leaves_out_other_platforms(lock: ModuleType) -> None:
    plain = lock.closure([Requirement("uvicorn")])
    extra = lock.closure([Requirement("sqlalchemy[asyncio]")])
    assert "click" in plain
    assert "colorama" not in plain  # Windows only
    assert "greenlet" in extra
    assert "aiosqlite" not in extra  # of another extra


def test_local_versions_lose_their_suffix(lock: ModuleType) -> None:
    assert "+" not in "".join(lock.closure([Requirement("torch")]).values())


def test_what_is_not_installed_is_said(lock: ModuleType) -> None:
    with pytest.raises(LookupError, match="no-such-thing is needed but not installed"):
        lock.closure([Requirement("no-such-thing")])


def test_what_is_written_is_read_again(lock: ModuleType) -> None:
    text = lock.render({"b": "2", "a": "1.0", "pip": "26"})
    assert lock.pins(text) == {"a": "1.0", "b": "2"}
    assert text.index("a==1.0") < text.index("b==2")


def test_the_projects_are_read_with_extras_and_the_development_group(lock: ModuleType) -> None:
    wanted, own = lock.declared(SCRIPT.parent.parent)
    names = {entry.requirement.name for entry in wanted}
    assert {"fastapi", "confluent-kafka", "motor", "SecantusDB", "mypy"} <= names
    assert "cairn-shared" in own
    assert not names & own


def test_check_changes_nothing(tmp_path: Path) -> None:
    constraints = SCRIPT.parent.parent / "constraints.txt"
    before = constraints.read_bytes()
    subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, timeout=60)
    assert constraints.read_bytes() == before
