"""What a hostile repository can do: fill memory, unfold without end, leave its folder, take a token, hold a loop."""

from __future__ import annotations

import hashlib
import io
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo
from pydantic import SecretStr

from cairn_ingest_consumer.repositories.plan import plan
from cairn_shared.errors import InvalidInput, TooLarge, Unavailable
from cairn_shared.repositories.git_process import ProcessReader
from cairn_shared.repositories.globs import compile_pattern
from cairn_shared.repositories.hosts import Hosts, RepositorySettings
from cairn_shared.repositories.limits import MEBIBYTE, CloneLimits, ProcessLimits
from cairn_shared.repositories.model import Declaration
from cairn_shared.repositories.packs import check_pack
from cairn_shared.repositories.reading import TreeFile

BLOB, OFFSET_DELTA, REFERENCE_DELTA = 3, 6, 7


def number(value: int) -> bytes:
    """Seven bits a byte, the lowest first, as deltas hold sizes."""
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def packed(kind: int, content: bytes, *, declared: int | None = None, base: bytes = b"") -> bytes:
    size = len(content) if declared is None else declared
    first, rest = kind << 4 | size & 15, size >> 4
    head = bytes([first | 128]) + number(rest) if rest else bytes([first])
    return head + base + zlib.compress(content, 9)


def pack(*objects: bytes, count: int | None = None) -> io.BytesIO:
    body = b"PACK\0\0\0\2" + (len(objects) if count is None else count).to_bytes(4, "big") + b"".join(objects)
    return io.BytesIO(body + hashlib.sha1(body, usedforsecurity=False).digest())


MAKES_A_LOT = number(10) + number(900 * MEBIBYTE) + b"\x91\0\x0a"
SMALL = CloneLimits(inflated=1, objects=3)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (pack(), None),
        (io.BytesIO(), None),
        (pack(packed(BLOB, b"x" * 1000), packed(BLOB, b"")), None),
        (pack(packed(BLOB, bytes(MEBIBYTE))), None),
        (pack(packed(BLOB, bytes(MEBIBYTE)), packed(BLOB, b"x")), r"over 1 MiB \(REPO_INFLATED_MIB\)"),
        (pack(packed(BLOB, b"x", declared=800 * MEBIBYTE)), r"over 1 MiB \(REPO_INFLATED_MIB\)"),
        (pack(packed(OFFSET_DELTA, MAKES_A_LOT, base=b"\x0c")), r"over 1 MiB \(REPO_INFLATED_MIB\)"),
        (pack(packed(REFERENCE_DELTA, MAKES_A_LOT, base=bytes(20))), r"over 1 MiB \(REPO_INFLATED_MIB\)"),
        (pack(count=4), r"4 objects, over 3 \(REPO_CLONE_OBJECTS\)"),
        (pack(packed(BLOB, bytes(500_000), declared=10)), "broken pack"),
        (pack(packed(BLOB, b"x", declared=10)), "broken pack"),
        (pack(packed(BLOB, b"x"), count=2), "broken pack"),
        (io.BytesIO(b"PACK\0\0\0\2"), "broken pack"),
        (io.BytesIO(b"<html>no pack at all"), "broken pack"),
        (pack(b"\xff" * 40), "broken pack"),
    ],
)
def test_a_pack_is_judged_before_it_is_unpacked(sent: io.BytesIO, error: str | None) -> None:
    if error is None:
        check_pack(sent, SMALL)
    else:
        with pytest.raises((TooLarge, Unavailable), match=error):
            check_pack(sent, SMALL)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repo]:
    folder = tmp_path / "r.git"
    folder.mkdir()
    repository = Repo.init_bare(str(folder))
    yield repository
    repository.close()


def commit(repository: Repo, root: ObjectID) -> str:
    made = Commit()
    made.tree = root
    made.author = made.committer = b"T <t@example.org>"
    made.author_time = made.commit_time = 1
    made.author_timezone = made.commit_timezone = 0
    made.message = b"m"
    repository.object_store.add_object(made)
    repository.refs[Ref(b"refs/heads/main")] = made.id
    return made.id.decode()


def tree(repository: Repo, entries: list[tuple[bytes, int, ObjectID]]) -> ObjectID:
    made = Tree()
    for name, mode, identity in entries:
        made.add(name, mode, identity)
    repository.object_store.add_object(made)
    return made.id


async def test_trees_that_unfold_without_end_are_left(repository: Repo) -> None:
    root = tree(repository, [])
    for _ in range(30):  # two to the power of 30 folders, none of which holds a file
        root = tree(repository, [(b"a", 0o040000, root), (b"b", 0o040000, root)])
    reader = ProcessReader(repository.path, None, ProcessLimits(CloneLimits(objects=1000)))
    try:
        with pytest.raises(TooLarge, match="REPO_CLONE_OBJECTS"):
            await reader.files(commit(repository, root))
    finally:
        await reader.close()


async def test_an_object_that_fills_the_memory_of_its_process_costs_one_file(repository: Repo) -> None:
    size = 400 * MEBIBYTE
    head, piece, digest, packer = b"blob %d\0" % size, bytes(MEBIBYTE), hashlib.sha1(usedforsecurity=False), None
    digest.update(head)
    packer = zlib.compressobj(1)
    loose = packer.compress(head)
    for _ in range(400):
        digest.update(piece)
        loose += packer.compress(piece)
    loose += packer.flush()
    identity = digest.hexdigest()
    place = Path(repository.path) / "objects" / identity[:2] / identity[2:]
    place.parent.mkdir()
    place.write_bytes(loose)
    good = Blob.from_string(b"# Good")
    repository.object_store.add_object(good)
    root = tree(repository, [(b"bomb.md", 0o100644, ObjectID(identity.encode())), (b"good.md", 0o100644, good.id)])
    reader = ProcessReader(repository.path, None, ProcessLimits(memory=256))
    try:
        files = {file.path: file for file in await reader.files(commit(repository, root))}
        with pytest.raises(TooLarge):
            await reader.read(files["bomb.md"], MEBIBYTE)
        assert await reader.read(files["good.md"], MEBIBYTE) == b"# Good"
    finally:
        await reader.close()


async def test_the_process_knows_no_setting_and_its_folder_goes(
    repository: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGO_URI", "mongodb://secret-canary")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    commit(repository, tree(repository, []))
    reader = ProcessReader(repository.path, None)
    await reader.head("main")
    process = reader._process
    assert process is not None
    environment = Path(f"/proc/{process.pid}/environ")
    if environment.exists():
        assert b"secret-canary" not in environment.read_bytes()
    assert list(tmp_path.glob("cairn-git-*"))
    await reader.close()
    assert process.returncode is not None
    assert not list(tmp_path.glob("cairn-git-*"))


async def test_a_process_that_dies_is_unavailable_and_the_next_question_has_another(repository: Repo) -> None:
    made = commit(repository, tree(repository, []))
    reader = ProcessReader(repository.path, None)
    try:
        assert (await reader.head("main")).commit == made
        assert reader._process is not None
        reader._process.kill()
        with pytest.raises(Unavailable):
            await reader.head("main")
        assert (await reader.head("main")).commit == made
    finally:
        await reader.close()


@pytest.mark.parametrize("path", ["../a.md", "a/../../b.md", "/a.md", "a//b.md", "./a.md", ".git/a.md", "a\x00.md"])
def test_a_path_that_leaves_the_tree_is_skipped_and_named(path: str) -> None:
    declaration = Declaration(name="ops", url="https://github.com/o/r")
    found = plan(declaration, "github", [TreeFile(path, "b" * 40), TreeFile("good.md", "c" * 40)], [])
    assert [file.path for file in found.write.values()] == ["good.md"]
    assert [one.path for one in found.skipped] == [path.replace("\x00", "\\x00")]


@pytest.mark.parametrize(
    ("url", "provider", "allowed"),
    [
        ("https://git.example.org/o/r", "git", True),
        ("http://git.example.org/o/r", "git", False),
        ("https://git.example.org:8443/o/r", "git", False),
        ("https://git.example.org.evil.example/o/r", "git", False),
    ],
)
def test_a_token_goes_over_its_own_scheme_to_its_own_host(url: str, provider: str, allowed: bool) -> None:
    settings = RepositorySettings(gitea_api_url="https://git.example.org/api/v1", gitea_token=SecretStr("t"))
    declaration = Declaration.model_validate({"name": "ops", "url": url, "provider": provider})
    if allowed:
        assert Hosts(settings).access(declaration).token == SecretStr("t")
    else:
        with pytest.raises(InvalidInput):
            Hosts(settings).access(declaration)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 140 + "b", "a" * 4000),
        ("**/" * 90 + "b", "a/" * 2000 + "a"),
        ("**/*a*a*a*b/" * 20 + "c", "aaaa/" * 800 + "a"),
        ("?" * 290, "a" * 4000),
    ],
)
def test_no_pattern_makes_a_path_slow(pattern: str, path: str) -> None:
    begun = time.process_time()
    assert not compile_pattern(pattern).matches(path)
    assert time.process_time() - begun < 1
