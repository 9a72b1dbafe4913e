"""Steps as units: nothing of a step is lost, and nothing is shown without what it cannot stand without."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn_answerer.sentences import sentence_ends
from cairn_answerer.units import runs, units_of, with_needs
from cairn_shared.errors import CairnError
from cairn_shared.runbooks.markdown import load_runbook

RUNBOOKS = Path(__file__).parents[2] / "data" / "runbooks"
STEP = """**Make room.** The snapshot is first written to a temporary file, so it needs space. Look:

```bash
df -h /data
```

If not, extend the volume.

There are two ways:

- Grow it:

  ```bash
  kubectl edit pvc data
  ```

  1. Wait.
- Move it.

> Never delete dump.rdb. It is the
> only copy.

| reason | fix |
|---|---|
| disk | step 3 |
| fork | step 4 |

[docs]: https://example.org/a.b
"""


def pieces(text: str) -> list[str]:
    return [text[unit.start : unit.end] for unit in units_of(text)]


def texts(text: str) -> list[str]:
    return [piece.strip() for piece in pieces(text)]


def shown(text: str, *chosen: str) -> list[str]:
    """What is shown where the units that begin with `chosen` are chosen."""
    places = [place for place, piece in enumerate(texts(text)) if piece.startswith(chosen)]
    assert len(places) == len(chosen)
    return list(runs(text, units_of(text), with_needs(units_of(text), places)))


def test_a_step_falls_into_sentences_items_fences_quotations_and_rows() -> None:
    assert [unit.kind for unit in units_of(STEP)] == [
        "sentence", "sentence", "sentence", "fence", "sentence", "sentence", "item", "fence", "item", "item", "quote",
        "row", "row", "row", "other",
    ]  # fmt: skip
    assert texts(STEP)[:4] == [
        "**Make room.**",
        "The snapshot is first written to a temporary file, so it needs space.",
        "Look:",
        "```bash\ndf -h /data\n```",
    ]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("**Make room", ["**Make room.**"]),
        ("```bash\ndf", ["**Make room.**", "Look:\n\n```bash\ndf -h /data\n```"]),
        ("Look", ["**Make room.**", "Look:\n\n```bash\ndf -h /data\n```"]),
        ("```bash\n  kubectl", ["There are two ways:\n\n- Grow it:\n\n  ```bash\n  kubectl edit pvc data\n  ```"]),
        ("1. Wait", ["There are two ways:\n\n- Grow it:\n\n  ```bash\n  kubectl edit pvc data\n  ```\n\n  1. Wait."]),
        ("- Move", ["There are two ways:", "- Move it."]),
        ("| fork", ["| reason | fix |\n|---|---|\n| disk | step 3 |\n| fork | step 4 |"]),
        ("> Never", ["> Never delete dump.rdb. It is the\n> only copy."]),
    ],
)
def test_what_is_chosen_brings_what_it_cannot_stand_without(chosen: str, expected: list[str]) -> None:
    assert shown(STEP, chosen) == expected


def test_what_stands_under_a_heading_brings_the_heading() -> None:
    text = "## If the disk is full\n\n### On Linux\n\nGrow it.\n\n## Otherwise\n\nWait. Look."
    assert shown(text, "Grow") == ["## If the disk is full\n\n### On Linux\n\nGrow it."]
    assert shown(text, "Look") == ["## Otherwise", "Look."]


def test_what_follows_a_fence_speaks_of_it_and_what_introduces_the_next_does_not() -> None:
    text = "One.\n\n```\na\n```\n\nExpect 1. Next:\n\n```\nb\n```\n\nRun it as root. Look.\n\nRest."
    assert shown(text, "Expect") == ["One.\n\n```\na\n```\n\nExpect 1."]
    assert shown(text, "Next") == ["Next:\n\n```\nb\n```"]
    assert shown(text, "Look") == ["Next:\n\n```\nb\n```", "Look."]
    assert shown(text, "Rest") == ["Rest."]


def test_words_in_bold_are_a_heading_of_what_follows() -> None:
    text = "**If it is full.** Grow it. Look.\n\n**Otherwise:**\n\nWait.\n\n- Sleep.\n\n**Then**\n\nGo **on**."
    assert shown(text, "Look") == ["**If it is full.**", "Look."]
    assert shown(text, "- Sleep") == ["**Otherwise:**\n\nWait.\n\n- Sleep."]
    assert shown(text, "Go") == ["**Then**\n\nGo **on**."]


def test_an_indented_run_stands_at_the_margin() -> None:
    text = "- a\n\n      code\n        more\n"
    assert list(runs(text, units_of(text), [1])) == ["code\n  more"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Do not use `SAVE. It`. It blocks.", ["Do not use `SAVE. It`.", "It blocks."]),
        ("Wait, e.g. until v1.2 is out, then go on.", ["Wait, e.g. until v1.2 is out, then go on."]),
        (
            "See [a. B](http://x.y/z. A) (ok. No). Then?  Yes!",
            ["See [a. B](http://x.y/z. A) (ok. No).", "Then?", "Yes!"],
        ),
        ("Look at https://x.org/a.b?c. Then go.", ["Look at https://x.org/a.b?c.", "Then go."]),
        ("まず停止する。次に「開始。」と言う。終わり", ["まず停止する。", "次に「開始。」", "と言う。", "終わり"]),
        ("سؤال؟ نعم۔ تم", ["سؤال؟", "نعم۔", "تم"]),
        ("यह करें। फिर रुकें।", ["यह करें।", "फिर रुकें।"]),
        ("Ist es so? Ja. Dann „weiter“.", ["Ist es so?", "Ja.", "Dann „weiter“."]),
        ("One\nline. Two", ["One\nline.", "Two"]),
        ("Wait... then go.", ["Wait... then go."]),
    ],
)
def test_sentences_end_where_unicode_says_so_in_any_script(text: str, sentences: list[str]) -> None:
    ends = [0, *sentence_ends(text), len(text)]
    assert [text[start:end].strip() for start, end in pairwise(ends)] == sentences


ALPHABET = "aB1 .!?。\n\n\t`#>-*|[]():~=\\<&é漢\u2028\u00a0\u200b\r"


@given(st.text(alphabet=ALPHABET, max_size=200))
def test_no_character_of_any_text_is_lost(text: str) -> None:
    units = units_of(text)
    assert "".join(pieces(text)) == (text if units else "")
    assert all(unit.end > unit.start for unit in units)
    assert all(set(unit.needs) <= set(range(len(units))) for unit in units)
    assert units or not text.strip()


def steps_of(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.md")):
        try:
            runbook = load_runbook(path.read_text(errors="replace"), runbook_id="x", path=path.name)
        except CairnError:
            continue
        yield from (step.body for step in runbook.steps)


def test_the_units_of_every_demo_step_are_the_step() -> None:
    count = 0
    for text in steps_of(RUNBOOKS):
        assert "".join(pieces(text)) == text
        count += 1
    assert count > 300
