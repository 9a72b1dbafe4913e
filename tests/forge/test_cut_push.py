"""A push of more commits than the forge lists in its webhook: every one of them can be found, and each once."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import httpx
import pytest

if TYPE_CHECKING:
    from tests.forge.conftest import Cairn, Forge, StartCairn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

FETCHED = re.compile(r"^cairn_push_fetched_commits_total (\S+)$", re.MULTILINE)


def history(folder: Path, url: str, first: int, count: int, *, branch: str = "main") -> list[str]:
    """Commits on top of each other, pushed at once; their ids."""
    if not folder.exists():
        subprocess.run(["git", "clone", "-q", url, str(folder)], check=True)
        git(folder, "checkout", "-q", "-B", branch)
    stream = []
    for number in range(first, first + count):
        text = f"Tune knob {number} of the pump\n\nRefs PUMP-{number}\n"
        stream.append(
            f"commit refs/heads/{branch}\nauthor Ada Ø <ada@example.org> {1_770_000_000 + number} +0100\n"
            f"committer Bo <bo@example.org> {1_770_100_000 + number} -0300\ndata {len(text.encode())}\n{text}"
            + (f"from refs/heads/{branch}^0\n" if number == first and first else "")
            + f"M 100644 inline knobs/{number % 7}.yaml\ndata {len(str(number))}\n{number}\n"
        )
    subprocess.run(["git", "fast-import", "--quiet", "--force"], cwd=folder, input="".join(stream).encode(), check=True)
    git(folder, "push", "-q", "origin", branch)
    return git(folder, "rev-list", f"-{count}", branch).split()


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


async def commits(dsn: str) -> dict[str, str]:
    """The commits that can be found, with their text."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT external_id, string_agg(s.body, '' ORDER BY s.step_number) AS body FROM documents d"
            " JOIN steps s USING (document_id) WHERE kind = 'commit' AND NOT d.deleted GROUP BY 1"
        )
    finally:
        await connection.close()
    return {row["external_id"].rpartition("@")[2]: row["body"] for row in rows}


def fetched(cairn: Cairn) -> list[float]:
    """How many commits each consumer has fetched; of a dead one none."""
    found = []
    for url in cairn.consumer_urls:
        try:
            match = FETCHED.search(httpx.get(f"{url}/metrics", trust_env=False).text)
        except httpx.HTTPError:
            match = None
        found.append(float(match[1]) if match else 0.0)
    return found


async def until(check: object, what: str, within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not await check():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.1)


async def test_every_commit_of_a_push_that_the_forge_cut_is_found_though_a_consumer_dies(
    forge: Forge, start_cairn: StartCairn, postgres_dsn: str, tmp_path: Path
) -> None:
    forge.http.post("user/repos", json={"name": "knobs", "default_branch": "main"}).raise_for_status()
    with start_cairn(2, GITEA_API_URL=f"{forge.url}/api/v1", GITEA_TOKEN=forge.token) as cairn:
        hook = {"url": f"{cairn.url}/webhooks/github", "content_type": "json", "secret": cairn.secret}
        forge.http.post(
            "repos/ops/knobs/hooks", json={"type": "gitea", "config": hook, "events": ["push"], "active": True}
        ).raise_for_status()
        work = tmp_path / "work"
        pushed = history(work, forge.clone_url("knobs"), 0, 40)

        async def all_found() -> bool:
            return set(pushed) == set(await commits(postgres_dsn))

        await until(all_found, "the first push: a new default branch")
        assert sum(fetched(cairn)) == 40 - 5, "Gitea lists 5, those are not fetched again"

        pushed += history(work, forge.clone_url("knobs"), 40, 240)

        async def begun() -> bool:
            return max(fetched(cairn)) > 60

        await until(begun, "the fetch of the second push")
        busy = max(range(2), key=lambda number: fetched(cairn)[number])
        cairn.consumers[busy].kill()
        await until(all_found, "the second push", within=150)
        texts = await commits(postgres_dsn)
        sample = texts[pushed[40]]
        for part in ("Refs PUMP-", "Author: Ada Ø", "Date: 2026-0", "- knobs/"):
            assert part in sample
        metrics = httpx.get(f"{cairn.url}/metrics", trust_env=False).text
        assert 'cairn_cut_pushes_total{outcome="fetched",source="github"} 2.0' in metrics
