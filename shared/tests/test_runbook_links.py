from __future__ import annotations

import pytest

from cairn_shared.runbooks.links import targets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [it](disk.md)", ["redis/disk"]),
        ('see [it](../mysql/disk.md#step-2) and [that](<./other.html> "x")', ["mysql/disk", "redis/other"]),
        ("[a](https://example.com/disk.md) [b](mailto:x@y.z) [c](/abs.md) [d](#here)", []),
        ("[spaces](disk%20full.md)", ["redis/disk full"]),
        ("no link (disk.md)", []),
    ],
)
def test_relative_links_are_read_from_the_page_s_own_folder(text: str, expected: list[str]) -> None:
    assert list(targets(text, "redis/page.md")) == expected
