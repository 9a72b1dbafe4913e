"""The history of a repository as signed pushes, some lost, some repeated, none in order, under dying consumers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import random
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from cairn_shared.errors import InvalidInput
from cairn_shared.runbooks.markdown import load_runbook

if TYPE_CHECKING:
    from tests.forge.conftest import Cairn, StartCairn

CORPUS = Path(__file__).parents[3] / "shared" / "corpora" / "prometheus-operator-runbooks"
COMMITS = 300

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpora are not beside this checkout"),
]


class History:
    """A repository that grows commit by commit, by git itself."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = random.Random(seed)
        self._corpus = [data for path in sorted(CORPUS.rglob("*.md")) if _is_runbook(data := path.read_bytes())]
        self._environment = {
            **os.environ,
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self._folder, env=self._environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def grow(self) -> str:
        """One commit more; its id."""
        chance, paths = self._seed, sorted(path for path in self._folder.rglob("*.md"))
        kind = chance.choices(["add", "edit", "rename", "delete"], [4, 4, 2, 1])[0] if len(paths) > 3 else "add"
        if kind == "delete":
            chance.choice(paths).unlink()
        elif kind == "rename":
            old = chance.choice(paths)
            old.rename(old.with_name(f"moved-{chance.randrange(10**6)}.md"))
        elif kind == "edit":
            with chance.choice(paths).open("ab") as file:
                file.write(f"\n\nEdit {chance.randrange(10**6)}\n".encode())
        else:
            folder = self._folder / f"d{chance.randrange(4)}"
            folder.mkdir(exist_ok=True)
            (folder / f"{chance.randrange(10**6)}.md").write_bytes(chance.choice(self._corpus))
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"{kind}")
        return self.git("rev-parse", "HEAD")

    def tree(self) -> dict[str, str]:
        lines = self.git("ls-tree", "-r", "HEAD").splitlines()
        return {path: head.split()[2] for head, path in (line.split("\t") for line in lines)}


def _is_runbook(data: bytes) -> bool:
    """Not a page that is only a title: the sync skips those."""
    try:
        load_runbook(data.decode(), runbook_id="x")
    except InvalidInput:
        return False
    return True


def push(cairn: Cairn, url: str, commit: str, delivery: str) -> None:
    payload: dict[str, Any] = {
        "ref": "refs/heads/main",
        "after": commit,
        "commits": [],
        "repository": {"full_name": "ops/history", "clone_url": url},
    }
    body = json.dumps(payload).encode()
    digest = hmac.new(cairn.secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "push", "x-github-delivery": delivery, "x-hub-signature-256": f"sha256={digest}"}
    answer = cairn.http.post("/webhooks/github", content=body, headers=headers)
    assert answer.status_code == 202, answer.text


async def indexed(dsn: str) -> dict[str, str]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT path, blob_sha FROM documents WHERE kind = 'runbook' AND NOT deleted AND version >= 0"
        )
    finally:
        await connection.close()
    return {row["path"]: row["blob_sha"] for row in rows}


async def test_after_the_last_sync_the_index_equals_the_tree(
    start_cairn: StartCairn, postgres_dsn: str, tmp_path: Path
) -> None:
    chance = random.Random(20261130)
    history = History(tmp_path / "history", 7)
    history.grow()
    url = f"file://{tmp_path / 'history'}"
    with start_cairn(3, ALLOW_LOCAL_REPOS="1") as cairn:
        cairn.http.post("/repos", json={"name": "history", "url": url}).raise_for_status()
        commits = [history.grow() for _ in range(COMMITS // 3)]
        for part in range(3):
            waiting = [(commit, str(uuid.uuid4())) for commit in commits if chance.random() > 0.2]
            waiting += [one for one in waiting if chance.random() < 0.25]
            chance.shuffle(waiting)
            commits = []
            for number, (commit, delivery) in enumerate(waiting):
                push(cairn, url, commit, delivery)
                if part < 2:
                    commits.append(history.grow())
                if part < 2 and number == len(waiting) // 2:
                    cairn.consumers[part].kill()
        asked = cairn.http.post("/repos/history/sync").json()["event_id"]
        tree = history.tree()
        print(history.git("rev-list", "--count", "HEAD"), "commits")
        started = time.monotonic()
        while await indexed(postgres_dsn) != tree:
            assert time.monotonic() - started < 120, _difference(await indexed(postgres_dsn), tree, cairn, asked)
            await asyncio.sleep(0.2)
        print(f"{len(tree)} runbooks equal {time.monotonic() - started:.1f} s after the last sync was asked for")
        await asyncio.sleep(3)
        assert await indexed(postgres_dsn) == tree


def _difference(found: dict[str, str], tree: dict[str, str], cairn: Cairn, asked: str) -> str:
    state = cairn.http.get("/repos/history").json()["state"]
    wrong = sorted(path for path in {*found, *tree} if found.get(path) != tree.get(path))
    return f"{len(wrong)} paths differ, {wrong[:5]}; sync {asked}: {state['error']} at {state['commit']}"
