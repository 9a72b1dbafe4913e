"""A push to a real forge is searchable within seconds, and the index stays the tree."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

if TYPE_CHECKING:
    from tests.forge.conftest import Cairn, Forge


class Clone:
    """A working copy, by git itself."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._environment = {
            **os.environ,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "Ops",
            "GIT_AUTHOR_EMAIL": "ops@example.org",
            "GIT_COMMITTER_NAME": "Ops",
            "GIT_COMMITTER_EMAIL": "ops@example.org",
            "GIT_TERMINAL_PROMPT": "0",
        }
        folder.mkdir()
        self.git("clone", "-q", url, ".")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self._folder, env=self._environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self._folder / path).write_text(text)

    def push(self, message: str, *options: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        self.git("push", "-q", *options, "origin", "HEAD:main")

    def tree(self) -> dict[str, str]:
        """Blob ids of the runbooks by path."""
        lines = self.git("ls-tree", "-r", "HEAD").splitlines()
        entries = [line.split("\t") for line in lines]
        return {path: head.split()[2] for head, path in entries if path != "README.md"}


async def indexed(dsn: str) -> dict[str, str]:
    """Blob ids by path, of the runbooks that can be searched."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT path, blob_sha FROM documents d WHERE kind = 'runbook' AND NOT deleted"
            " AND EXISTS (SELECT 1 FROM chunks c JOIN chunk_embeddings_384 USING (chunk_id)"
            " WHERE c.document_id = d.document_id)"
        )
    finally:
        await connection.close()
    return {row["path"]: row["blob_sha"] for row in rows}


async def until_index_is(dsn: str, tree: dict[str, str], within: float = 20.0) -> float:
    """Wait for it; the seconds that it took."""
    started = time.monotonic()
    while (found := await indexed(dsn)) != tree:
        assert time.monotonic() - started < within, f"the index has {sorted(found)}, the tree {sorted(tree)}"
        await asyncio.sleep(0.05)
    return time.monotonic() - started


@pytest.mark.slow
@pytest.mark.timeout(300)  # a forge, an embedder and two services start first
async def test_pushes_renames_deletes_and_a_force_push_reach_the_index(
    forge: Forge, cairn: Cairn, postgres_dsn: str, tmp_path: Path
) -> None:
    forge.http.post("user/repos", json={"name": "rb", "auto_init": True, "default_branch": "main"}).raise_for_status()
    declared = cairn.http.post(
        "/repos", json={"name": "rb", "url": f"{forge.url}/ops/rb.git", "exclude": ["README.md"]}
    )
    assert declared.status_code == 201, declared.text
    assert (declared.json()["provider"], declared.json()["webhook"]["path"]) == ("gitea", "/webhooks/github")
    hook = {"url": f"{cairn.url}/webhooks/github", "content_type": "json", "secret": cairn.secret}
    forge.http.post(
        "repos/ops/rb/hooks", json={"type": "gitea", "config": hook, "events": ["push", "issues"], "active": True}
    ).raise_for_status()

    clone = Clone(tmp_path / "clone", forge.clone_url("rb"))
    for number in range(12):
        clone.write(f"alerts/Alert{number}.md", f"# Alert {number}\n\n1. Look at pod {number}\n2. Restart it\n")
    clone.push("Twelve runbooks")
    first = clone.git("rev-parse", "HEAD")
    seconds = [await until_index_is(postgres_dsn, clone.tree())]

    clone.git("mv", "alerts/Alert1.md", "alerts/Renamed.md")
    clone.git("rm", "-q", "alerts/Alert2.md")
    clone.write("alerts/Alert3.md", "# Alert 3\n\n1. Something else\n")
    clone.push("Rename, delete and edit")
    seconds.append(await until_index_is(postgres_dsn, clone.tree()))

    clone.git("reset", "-q", "--hard", first)
    clone.write("alerts/New.md", "# New\n\n1. After the force push\n")
    clone.push("Instead", "--force")
    seconds.append(await until_index_is(postgres_dsn, clone.tree()))
    print("seconds from push to searchable:", [round(one, 2) for one in seconds])

    commits = await _count(postgres_dsn, "commit")
    assert commits == 3
    issue = forge.http.post("repos/ops/rb/issues", json={"title": "Disk full on db-1", "body": "See PROJ-9"})
    issue.raise_for_status()
    await _until_count(postgres_dsn, "issue", 1)
    state = cairn.http.get("/repos/rb").json()["state"]
    assert (state["commit"], state["error"]) == (clone.git("rev-parse", "HEAD"), None)

    assert cairn.http.delete("/repos/rb").status_code == 200
    await until_index_is(postgres_dsn, {})


async def _count(dsn: str, kind: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM documents WHERE kind = $1 AND NOT deleted", kind))
    finally:
        await connection.close()


async def _until_count(dsn: str, kind: str, wanted: int, within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while await _count(dsn, kind) != wanted:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
