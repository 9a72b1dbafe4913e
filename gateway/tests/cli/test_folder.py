"""Every file of a folder is a document or refused with a reason; batches stay within their limits."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn_gateway.cli.folder import BatchLimits, Document, Refused, batches, list_folder, read

LIMIT = 1000


def write(root: Path, path: str, content: bytes = b"# Title\n") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_markdown_is_found_in_every_folder_and_listed_in_order(tmp_path: Path) -> None:
    for path in (
        "b.md",
        "a/z.markdown",
        "a/deep/er/x.MD",
        "a/notes.txt",
        "README.md.bak",
        ".git/c.md",
        "a/.hidden/d.md",
        "a/.draft.md",
    ):
        write(tmp_path, path)
    assert list_folder(tmp_path).files == ("a/deep/er/x.MD", "a/z.markdown", "b.md")


def test_a_single_file_is_its_own_listing(tmp_path: Path) -> None:
    listing = list_folder(write(tmp_path, "a/b.md"))
    assert (listing.root, listing.files) == (tmp_path / "a", ("b.md",))


def test_folders_that_link_to_themselves_end(tmp_path: Path) -> None:
    write(tmp_path, "a/b.md")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert list_folder(tmp_path).files == ("a/b.md",)


def test_text_is_read_as_it_is_except_for_its_byte_order_mark(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"\xef\xbb\xbf# \xc3\x9cber\r\n\r\n1. x\r\n")
    assert read(tmp_path, "a.md", LIMIT) == Document("a.md", "# Über\r\n\r\n1. x\r\n")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"# ok\n\xff\n", "not UTF-8 text (byte 5 is wrong)"),
        ("# Titel".encode("utf-16"), "not UTF-8 text (UTF-16)"),
        (b"x" * (LIMIT + 1), "over 1,000 bytes"),
    ],
)
def test_files_that_cannot_be_sent_say_why(tmp_path: Path, content: bytes, reason: str) -> None:
    write(tmp_path, "a.md", content)
    assert read(tmp_path, "a.md", LIMIT) == Refused("a.md", reason)


def test_a_file_at_the_limit_is_read(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"x" * LIMIT)
    assert isinstance(read(tmp_path, "a.md", LIMIT), Document)


def test_links_inside_are_followed_and_links_that_lead_out_are_not(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, "real.md")
    (root / "inside.md").symlink_to("real.md")
    (root / "outside.md").symlink_to(write(tmp_path, "secret.txt"))
    (root / "nowhere.md").symlink_to("missing.md")
    (root / "circle.md").symlink_to("circle.md")
    assert isinstance(read(root, "inside.md", LIMIT), Document)
    assert read(root, "outside.md", LIMIT) == Refused("outside.md", "the link leads out of the folder")
    assert read(root, "nowhere.md", LIMIT) == Refused("nowhere.md", "the link leads nowhere")
    assert isinstance(read(root, "circle.md", LIMIT), Refused)


def test_pipes_and_folders_with_a_document_s_name_do_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    write(tmp_path, "folder.md/inside.md")
    assert list_folder(tmp_path).files == ("folder.md/inside.md", "pipe.md")
    assert read(tmp_path, "pipe.md", LIMIT) == Refused("pipe.md", "not a regular file")


def test_a_name_that_is_not_utf8_is_shown_with_its_bytes(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).write_bytes(b"# x")
    (name,) = list_folder(tmp_path).files
    assert read(tmp_path, name, LIMIT) == Refused("caf\\xe9.md", "the file name is not UTF-8")


def test_what_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.md")
    write(tmp_path, "closed/b.md")
    scandir = os.scandir

    def denied(*arguments: object, **_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), *arguments)

    # Simulated, because root may read everything.
    monkeypatch.setattr(os, "scandir", lambda path: denied(path) if str(path).endswith("closed") else scandir(path))
    assert list_folder(tmp_path).refused == (Refused("closed/", "the folder cannot be listed: permission denied"),)
    monkeypatch.setattr(Path, "open", denied)
    assert read(tmp_path, "a.md", LIMIT) == Refused("a.md", "cannot be read: permission denied")


@settings(deadline=None)  # the machine may be busy
@given(
    texts=st.lists(st.text(max_size=80), max_size=30),
    documents=st.integers(1, 7),
    size=st.integers(50, 600),
)
def test_batches_keep_order_and_limits_and_lose_nothing(texts: list[str], documents: int, size: int) -> None:
    given_documents = [Document(f"{number}.md", text) for number, text in enumerate(texts)]
    made = list(batches(given_documents, BatchLimits(documents, size)))
    assert [document for batch in made for document in batch] == given_documents
    for batch in made:
        body = json.dumps([{"path": item.path, "markdown": item.markdown} for item in batch]).encode()
        assert 1 <= len(batch) <= documents
        assert len(batch) == 1 or len(body) <= size + 2
