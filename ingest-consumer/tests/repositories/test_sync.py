"""Syncs over real repositories and a real MongoDB: whatever happened, the runbooks end as the tree."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from git_trees import GitTrees

from cairn_ingest_consumer.model import Delivery
from cairn_ingest_consumer.repositories import handler as handler_module
from cairn_ingest_consumer.repositories.handler import SyncRepositories
from cairn_ingest_consumer.repositories.sync import SyncPolicy
from cairn_shared.errors import TransientError
from cairn_shared.events import RepoPushed, make_event
from cairn_shared.kafka.records import Record
from cairn_shared.repositories.globs import selects
from cairn_shared.repositories.hosts import RepositorySettings
from cairn_shared.repositories.model import Declaration
from cairn_shared.repositories.store import RepositoryStore
from cairn_shared.runbooks.markdown import load_runbook
from cairn_shared.runbooks.model import Runbook, Step
from cairn_shared.runbooks.store import RunbookStore

if TYPE_CHECKING:
    from kept_notes import KeptNotes

Make = Callable[..., SyncRepositories]
CORPUS = Path(__file__).parents[4] / "shared" / "corpora" / "openshift-runbooks"


def text(title: str, *steps: str) -> str:
    return f"# {title}\n\n" + "".join(f"{number}. {step}\n" for number, step in enumerate(steps or ("look",), 1))


async def tree_of(runbooks: RunbookStore, name: str = "ops") -> dict[str, str | None]:
    """Blob ids by path, as MongoDB has them."""
    return {head.path or "": head.blob async for head in runbooks.heads(f"repo:{name}") if not head.deleted}


def expected(git: GitTrees, declaration: Declaration) -> dict[str, str]:
    return {path: blob for path, blob in git.blobs().items() if selects(path, declaration.include, declaration.exclude)}


def mark(name: str = "ops", number: int = 0) -> Delivery:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    event = make_event(
        "repo.pushed",
        source="github",
        source_id=f"{name}-{number}",
        subject=f"{name}@main",
        version=1,
        occurred_at=now,
        accepted_at=now,
        payload=RepoPushed(repository=name, branch="main"),
    )
    return Delivery(Record("t", 0, number, None, event.encode(), (), None), event)


async def test_adds_edits_renames_deletes_and_a_force_push_end_as_the_tree(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, repositories: RepositoryStore, make_handler: Make
) -> None:
    sync = make_handler()
    first = git.change(
        {"a.md": text("A"), "etcd/b.md": text("B"), "README.md": text("No"), "x/archive/c.md": text("Old")}
    )
    await sync.run("ops")
    assert await tree_of(runbooks) == expected(git, declared)
    stored = await runbooks.get("ops.etcd.b")
    assert (stored.runbook.path, stored.runbook.commit, stored.runbook.source) == ("etcd/b.md", first, "repo:ops")
    assert stored.runbook.title == "B"

    git.change({"a.md": text("A", "look", "restart")})
    git.change({"etcd/b.md": None, "etcd/b2.md": text("B")})
    await sync.run("ops")
    assert await tree_of(runbooks) == expected(git, declared)
    assert [step.body for step in (await runbooks.get("ops.a")).runbook.steps] == ["look", "restart"]
    assert (await runbooks.find("ops.etcd.b")).deleted  # type: ignore[union-attr]

    git.point(first)
    await sync.run("ops")
    assert await tree_of(runbooks) == expected(git, declared)
    assert len((await runbooks.get("ops.a")).runbook.steps) == 1
    state = (await repositories.get("ops")).state
    assert (state.commit, state.error, state.files) == (first, None, 2)


async def test_a_sync_without_changes_writes_nothing(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, repositories: RepositoryStore, make_handler: Make
) -> None:
    git.change({f"{number}.md": text(str(number)) for number in range(5)})
    await make_handler().run("ops")
    before = {head.id: head.revision async for head in runbooks.heads("repo:ops")}
    git.change({"unrelated.txt": "x"})
    for _ in range(3):
        await make_handler().run("ops")
    assert {head.id: head.revision async for head in runbooks.heads("repo:ops")} == before
    assert (await repositories.get("ops")).state.written == 0


async def test_a_hand_edit_lasts_until_the_next_sync(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, make_handler: Make
) -> None:
    git.change({"a.md": text("A")})
    await make_handler().run("ops")
    edited = (await runbooks.get("ops.a")).runbook.model_copy(update={"title": "Mine"})
    await runbooks.put(edited, markdown="# Mine\n\n1. x\n", by="jo")
    await make_handler().run("ops")
    assert (await runbooks.get("ops.a")).runbook.title == "A"


async def test_bad_files_are_reported_and_harm_no_other(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, repositories: RepositoryStore, make_handler: Make
) -> None:
    git.change({"good.md": text("Good"), "bad.md": text("Soon bad")})
    await make_handler().run("ops")
    git.change({"bad.md": b"\xff\xfe\x00", "empty.md": b"", "huge.md": b"# x\n\n1. y\n" + b"z" * (1024 * 1024 + 1)})
    await make_handler().run("ops")
    state = (await repositories.get("ops")).state
    assert [one.path for one in state.skipped] == ["bad.md", "empty.md", "huge.md"]
    assert list(await tree_of(runbooks)) == ["good.md"]


async def test_warnings_of_a_file_stay_until_the_file_changes(
    git: GitTrees, declared: Declaration, repositories: RepositoryStore, make_handler: Make
) -> None:
    async def warned() -> dict[str, list[str]]:
        await make_handler().run("ops")
        return {one.path: one.warnings for one in (await repositories.get("ops")).state.warned}

    git.change({"a.md": "---\nseverity: {}\n---\n" + text("A"), "b.md": text("B")})
    told = {"a.md": ["front matter: severity is a mapping, so it is left out"]}
    assert await warned() == told
    git.change({"b.md": text("B", "edited")})
    assert await warned() == told, "another file changed"
    git.change({"a.md": "---\nseverity: high\n---\n" + text("A")})
    assert await warned() == {}


async def test_an_id_that_belongs_to_somebody_else_is_not_taken(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, repositories: RepositoryStore, make_handler: Make
) -> None:
    mine = Runbook(id="ops.a", title="Mine", steps=[Step(number=1, label="1", body="keep")])
    await runbooks.put(mine, markdown=None, by="jo")
    git.change({"a.md": text("Theirs"), "b.md": text("B")})
    await make_handler().run("ops")
    assert (await runbooks.get("ops.a")).runbook.title == "Mine"
    assert (await repositories.get("ops")).state.skipped[0].path == "a.md"
    git.change({"a.md": None})
    await make_handler().run("ops")
    assert (await runbooks.get("ops.a")).runbook.title == "Mine"


async def test_a_removed_repository_takes_its_runbooks_along_and_one_that_is_unknown_takes_none(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, repositories: RepositoryStore, make_handler: Make
) -> None:
    git.change({"a.md": text("A"), "b.md": text("B")})
    await make_handler().run("ops")
    assert await make_handler().run("never-heard-of") == "never-heard-of is not declared"
    await repositories.remove("ops", by="test")
    await make_handler().run("ops")
    assert await tree_of(runbooks) == {}
    await repositories.declare(declared, by="test")
    await make_handler().run("ops")
    assert await tree_of(runbooks) == expected(git, declared)


async def test_a_repository_that_cannot_be_read_keeps_its_runbooks_and_is_tried_again_later(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, repositories: RepositoryStore, make_handler: Make
) -> None:
    git.change({"a.md": text("A")})
    await make_handler().run("ops")
    await repositories.declare(declared.model_copy(update={"branch": "gone"}), by="test")
    assert "there is no branch gone" in await make_handler().run("ops")
    assert "there is no branch gone" in await make_handler().run("ops")
    state = (await repositories.get("ops")).state
    assert (state.failures, state.error) == (2, "there is no branch gone")
    assert state.retry_at is not None
    assert list(await tree_of(runbooks)) == ["a.md"]


async def test_local_repositories_are_read_only_where_they_are_allowed(
    git: GitTrees, declared: Declaration, make_handler: Make, repositories: RepositoryStore
) -> None:
    git.change({"a.md": text("A")})
    assert "ALLOW_LOCAL_REPOS" in await make_handler(settings=RepositorySettings()).run("ops")


async def test_a_clone_over_its_limit_changes_nothing_and_names_the_setting(
    git: GitTrees, runbooks: RunbookStore, repositories: RepositoryStore, make_handler: Make
) -> None:
    def limited(mebibytes: int) -> RepositorySettings:
        return RepositorySettings(repo_hosts=url.split("/")[2], repo_clone_mib=mebibytes)

    with git.served() as url:
        await repositories.declare(Declaration(name="ops", url=url), by="test")
        git.change({"a.md": text("A"), "b.md": text("B")})
        await make_handler(settings=limited(1)).run("ops")
        before = await tree_of(runbooks)
        assert sorted(before) == ["a.md", "b.md"]
        git.change({"a.md": text("A", "edited"), "b.md": None, "c.md": text("C"), "dump.bin": os.urandom(2_500_000)})
        said = await make_handler(settings=limited(1)).run("ops")
        assert said == "failed: the clone is over 1 MiB (REPO_CLONE_MIB)"
        assert await tree_of(runbooks) == before
        state = (await repositories.get("ops")).state
        assert (state.error, state.failures) == ("the clone is over 1 MiB (REPO_CLONE_MIB)", 1)
        await make_handler(settings=limited(50)).run("ops")
        assert sorted(await tree_of(runbooks)) == ["a.md", "c.md"]


async def test_a_sync_that_takes_too_long_goes_on_with_the_next(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, repositories: RepositoryStore, make_handler: Make
) -> None:
    git.change({f"{number}.md": text(str(number)) for number in range(40)})
    await make_handler(SyncPolicy(budget=0.02, concurrency=1)).run("ops")
    state = (await repositories.get("ops")).state
    assert state.error is not None
    assert "left for the next sync" in state.error
    assert state.synced_at is None
    await make_handler().run("ops")
    assert await tree_of(runbooks) == expected(git, declared)
    assert (await repositories.get("ops")).state.error is None


async def test_a_new_loader_reads_every_file_again(
    git: GitTrees,
    declared: Declaration,
    runbooks: RunbookStore,
    make_handler: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    git.change({"a.md": text("A"), "b.md": text("B")})
    await make_handler().run("ops")
    read: list[str] = []
    original = load_runbook

    def other(content: str, **fields: object) -> Runbook:
        read.append(str(fields["path"]))
        return original(content.replace("# ", "# New "), **fields)  # type: ignore[arg-type]

    monkeypatch.setattr("cairn_ingest_consumer.repositories.sync.load_runbook", other)
    await make_handler().run("ops")
    assert read == []
    monkeypatch.setattr(handler_module, "LOADER", "next")
    await make_handler().run("ops")
    assert sorted(read) == ["a.md", "b.md"]
    assert (await runbooks.get("ops.a")).runbook.title == "New A"
    await make_handler().run("ops")
    assert len(read) == 2


async def test_marks_of_one_batch_are_one_sync_and_all_are_noted(
    git: GitTrees, declared: Declaration, make_handler: Make, ledger: KeptNotes, repositories: RepositoryStore
) -> None:
    git.change({"a.md": text("A")})
    marks = [mark(number=number) for number in range(5)]
    await make_handler().handle(marks)
    assert len(ledger.notes) == 5
    assert {detail.split(": ")[1] for _, detail in ledger.notes} == {"1 files, 1 written, 0 deleted"}


async def test_when_mongo_is_away_the_mark_is_not_done(
    git: GitTrees, declared: Declaration, make_handler: Make, ledger: KeptNotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    git.change({"a.md": text("A"), "b.md": text("B")})

    async def away(*_: object, **__: object) -> None:
        raise TransientError("mongo: away")

    monkeypatch.setattr(RunbookStore, "put", away)
    with pytest.raises(TransientError, match="mongo"):
        await make_handler().handle([mark()])
    assert ledger.notes == []


async def test_the_branch_that_moves_during_the_sync_is_followed(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, make_handler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    git.change({"a.md": text("A")})
    original = RunbookStore.put
    pushed = False

    async def put(self: RunbookStore, *args: object, **kwargs: object) -> object:
        nonlocal pushed
        if not pushed:
            pushed = True
            git.change({"a.md": None, "b.md": text("B")})
        return await original(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(RunbookStore, "put", put)
    await make_handler().run("ops")
    assert await tree_of(runbooks) == expected(git, declared)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpora are not beside this checkout")
async def test_three_hundred_commits_with_lost_and_repeated_marks_and_killed_replicas_end_as_the_tree(
    git: GitTrees, declared: Declaration, runbooks: RunbookStore, make_handler: Make
) -> None:
    """Three replicas; the marks come in random order, a fifth of them lost, a fifth twice; two replicas are killed."""
    seed = random.Random(20261130)
    corpus = [path.read_bytes() for path in sorted(CORPUS.rglob("*.md"))[:60]]
    await repositories_start(git, corpus)
    pushes: asyncio.Queue[int] = asyncio.Queue()
    marks = [number for number in range(300) if seed.random() > 0.2]
    marks += [number for number in marks if seed.random() < 0.25]
    seed.shuffle(marks)

    async def replica() -> None:
        handler = make_handler(SyncPolicy(concurrency=3))
        while True:
            number = await pushes.get()
            await handler.handle([mark(number=number)])
            pushes.task_done()

    replicas = [asyncio.create_task(replica()) for _ in range(3)]
    try:
        for number in range(300):
            change(git, seed, corpus)
            if number < len(marks) and number % 4 == 0:
                for one in marks[number : number + 4]:
                    pushes.put_nowait(one)
                await asyncio.sleep(0.005)
            if number in {100, 200}:
                victim = replicas[number // 100 - 1]
                victim.cancel()
                await asyncio.gather(victim, return_exceptions=True)
        while not pushes.empty():
            await asyncio.sleep(0.02)
    finally:
        for task in replicas:
            task.cancel()
        await asyncio.gather(*replicas, return_exceptions=True)
    assert len(git.commits) > 300
    await make_handler().run("ops")
    assert await tree_of(runbooks) == expected(git, declared)
    for head in [head async for head in runbooks.heads("repo:ops") if not head.deleted]:
        assert (await runbooks.get(head.id)).markdown == git.files[head.path or ""].decode("utf-8-sig")


async def repositories_start(git: GitTrees, corpus: list[bytes]) -> None:
    git.put({f"start/{number}.md": content for number, content in enumerate(corpus[:10])})


def change(git: GitTrees, seed: random.Random, corpus: list[bytes]) -> None:
    """One commit: an add, an edit, a rename, a delete, or now and then a force push."""
    kind = seed.choices(["add", "edit", "rename", "delete", "force"], [4, 5, 2, 2, 0.3])[0]
    paths = sorted(git.files)
    if kind == "add" or len(paths) < 3:
        git.change({f"d{seed.randrange(5)}/{seed.randrange(10**6)}.md": seed.choice(corpus)})
    elif kind == "edit":
        path = seed.choice(paths)
        git.change({path: git.files[path] + f"\n\nEdit {seed.randrange(10**6)}\n".encode()})
    elif kind == "rename":
        path = seed.choice(paths)
        git.change({path: None, f"r/{seed.randrange(10**6)}.md": git.files[path]})
    elif kind == "delete":
        git.change({seed.choice(paths): None})
    else:
        git.put(dict(seed.choice(git.commits)[1]), orphan=True)
