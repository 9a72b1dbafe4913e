"""Markdown as it is found: what becomes of it, and what is refused with which reason."""

from __future__ import annotations

from contextlib import suppress

import pytest
from growth import assert_linear
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn_shared.errors import InvalidInput, TooLarge
from cairn_shared.plain_text import strip_invisible
from cairn_shared.runbooks.markdown import RunbookDefaults, decode_markdown, load_runbook
from cairn_shared.runbooks.model import MAX_MARKDOWN_BYTES, Runbook, Step

FULL = """---
title: Replica lag
service: postgres
severity: critical
owner: dba
tags: [replication, wal]
alerts: PostgresReplicaLag, PostgresWalBacklog
runbook_url: https://runbooks.example.com/lag
---

# PostgreSQL replica lags behind

A replica has fallen behind.

## Repair

1. Look at the lag:

   ```sql
   # not a heading
   SELECT 1;
   ```

2. Restart it.
   - gently
   - then look again

## Impact

Reads are stale.
"""


def load(text: str, **options: str) -> Runbook:
    return load_runbook(text, runbook_id="r", **options)  # type: ignore[arg-type]


def numbered(runbook: Runbook) -> list[tuple[int, str, str, str]]:
    return [(step.number, step.label, step.kind, step.body.split("\n")[0]) for step in runbook.steps]


def bodies(text: str) -> list[str]:
    return [step.body for step in load(text).steps]


def test_a_whole_file() -> None:
    runbook = load(FULL, source="repo:ops", path="db/PostgresReplicaLag.md", commit="abc", blob="def", url="https://x")
    assert (runbook.title, runbook.service, runbook.severity, runbook.owner) == (
        "Replica lag",
        "postgres",
        "critical",
        "dba",
    )
    assert runbook.tags == ["replication", "wal"]
    assert runbook.alerts == ["PostgresReplicaLag", "PostgresWalBacklog"]
    assert runbook.links == ["https://runbooks.example.com/lag"]
    assert (runbook.source, runbook.path, runbook.commit) == ("repo:ops", "db/PostgresReplicaLag.md", "abc")
    assert runbook.steps == [
        Step(
            number=1,
            label="1",
            section="Repair",
            kind="ordered",
            body="Look at the lag:\n\n```sql\n# not a heading\nSELECT 1;\n```",
            line_start=17,
            line_end=22,
        ),
        Step(
            number=2,
            label="2",
            section="Repair",
            kind="ordered",
            body="Restart it.\n- gently\n- then look again",
            line_start=24,
            line_end=26,
        ),
        Step(
            number=3,
            label="3",
            section="",
            kind="section",
            body="A replica has fallen behind.",
            line_start=13,
            line_end=13,
        ),
        Step(
            number=4, label="4", section="Impact", kind="section", body="Reads are stale.", line_start=30, line_end=30
        ),
    ]


class TestNumbering:
    def test_prose_comes_after_the_procedure_and_does_not_shift_it(self) -> None:
        runbook = load("# T\n\n## Meaning\n\nIt is down.\n\n## Do\n\n1. One\n2. Two\n\n## After\n\nRest.\n")
        assert numbered(runbook) == [
            (1, "1", "ordered", "One"),
            (2, "2", "ordered", "Two"),
            (3, "3", "section", "It is down."),
            (4, "4", "section", "Rest."),
        ]

    def test_every_item_written_1_is_counted_on(self) -> None:
        runbook = load("1. One\n1. Two\n1. Three\n")
        assert [(step.number, step.label) for step in runbook.steps] == [(1, "1"), (2, "2"), (3, "3")]

    def test_lists_that_restart_are_numbered_on_and_keep_their_labels(self) -> None:
        runbook = load("## A\n1. a\n2. b\n\n## B\n1. c\n2. d\n")
        assert [(step.number, step.label, step.section) for step in runbook.steps] == [
            (1, "1", "A"),
            (2, "2", "A"),
            (3, "1", "B"),
            (4, "2", "B"),
        ]

    def test_the_authors_own_digits_are_the_labels(self) -> None:
        assert [(step.number, step.label) for step in load("3. a\n4. b\n7. c\n").steps] == [
            (1, "3"),
            (2, "4"),
            (3, "7"),
        ]

    def test_an_empty_item_leaves_a_gap_so_that_the_others_keep_their_numbers(self) -> None:
        assert [step.number for step in load("1. a\n2.\n3. c\n").steps] == [1, 3]


class TestSteps:
    def test_step_headings_with_all_that_is_below_them(self) -> None:
        runbook = load(
            "# T\n\n## Step 1: Look\n\nText.\n\n### Detail\n\n1. inner\n\n## Step 2b - Act\n\n```\nx\n```\n\n## Notes\n\nN.\n"
        )
        assert [(step.number, step.label, step.kind) for step in runbook.steps] == [
            (1, "1", "heading"),
            (2, "2b", "heading"),
            (3, "3", "section"),
        ]
        assert runbook.steps[0].body == "## Step 1: Look\n\nText.\n\n### Detail\n\n1. inner"
        assert (runbook.steps[0].line_start, runbook.steps[0].line_end) == (3, 9)

    def test_numbered_headings_are_steps(self) -> None:
        runbook = load("# T\n\n## Fix\n\n### 1. Stop\n\na\n\n### 2) Start\n\nb\n")
        assert [(step.label, step.section, step.kind) for step in runbook.steps] == [
            ("1", "Fix", "heading"),
            ("2", "Fix", "heading"),
        ]

    def test_a_numbered_heading_above_step_headings_is_only_a_section(self) -> None:
        runbook = load("# T\n\n## 1. Part\n\n### Step 1: a\n\nx\n\n### Step 2: b\n\ny\n")
        assert [(step.label, step.section) for step in runbook.steps] == [("1", "1. Part"), ("2", "1. Part")]

    def test_checklists(self) -> None:
        runbook = load("# T\n\n- [ ] Drain\n- [x] Reboot\n")
        assert numbered(runbook) == [(1, "1", "checklist", "Drain"), (2, "2", "checklist", "Reboot")]

    def test_plain_lists_belong_to_their_section(self) -> None:
        assert bodies("## Check\n\n- disk\n- memory\n") == ["- disk\n- memory"]

    def test_an_unindented_fence_between_items_belongs_to_the_item_before(self) -> None:
        runbook = load("1. One\n\n```sh\nls\n```\n\n2. Two\n\n```sh\ndf\n```\n")
        assert [(step.label, step.body) for step in runbook.steps] == [
            ("1", "One\n\n```sh\nls\n```"),
            ("2", "Two\n\n```sh\ndf\n```"),
        ]

    def test_a_paragraph_that_interrupts_a_list_belongs_to_the_item_before(self) -> None:
        assert bodies("1. One\n\nwith a remark\n\n2. Two\n") == ["One\n\nwith a remark", "Two"]

    def test_a_paragraph_after_the_list_is_prose(self) -> None:
        assert bodies("1. One\n2. Two\n\nIf that fails, call.\n") == ["One", "Two", "If that fails, call."]

    def test_a_list_that_an_item_announces_belongs_to_it(self) -> None:
        assert bodies("1. Look at:\n\n- disk\n- cpu\n\n2. Go.\n") == ["Look at:\n\n- disk\n- cpu", "Go."]

    def test_nested_items_tables_and_fences_stay_in_their_item(self) -> None:
        text = "1. Do\n\n   1. first\n   2. second\n\n   | a | b |\n   |---|---|\n   | 1 | 2 |\n\n   ~~~\n   1. no step\n   ~~~\n2. End\n"
        assert bodies(text) == [
            "Do\n\n1. first\n2. second\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n~~~\n1. no step\n~~~",
            "End",
        ]

    def test_link_definitions_follow_the_steps_that_use_them(self) -> None:
        text = "1. See [the docs][d].\n2. Done.\n\n[d]: https://docs.example.com\n"
        assert bodies(text) == ["See [the docs][d].\n\n[d]: https://docs.example.com", "Done."]

    def test_relative_links_stay(self) -> None:
        assert bodies("See [other](../db/Other.md#fix).") == ["See [other](../db/Other.md#fix)."]


class TestTitle:
    @pytest.mark.parametrize(
        ("text", "path", "title"),
        [
            ("---\ntitle: Only here\n---\n\n1. a\n", None, "Only here"),
            ("Setext *title*\n==============\n\n1. a\n", None, "Setext title"),
            ("# `etcd` down {#down}\n\ntext\n", None, "etcd down"),
            ("text\n", "db/replica-lag.md", "replica-lag"),
            ("text\n", "db/lag/README.md", "lag"),
            ("text\n", None, "r"),
            ("## Meaning\n\na\n\n## Impact\n\nb\n", "a/KubeDown.md", "KubeDown"),
            ("## Failover\n\na\n\n### Impact\n\nb\n", "a/KubeDown.md", "Failover"),
            ("```\n# no heading\n```\n", "a/x.md", "x"),
            ("# Step 1: a\n\nx\n\n# Step 2: b\n\ny\n", "a/x.md", "x"),
            ("# 1. Failover\n\n## Do\n\ny\n", "a/x.md", "1. Failover"),
        ],
    )
    def test_comes_from_front_matter_then_heading_then_file_name(self, text: str, path: str | None, title: str) -> None:
        assert load_runbook(text, runbook_id="r", path=path).title == title

    def test_the_title_heading_is_in_no_section(self) -> None:
        assert [step.section for step in load("# T\n\n## A\n\n### B\n\nx\n").steps] == ["A > B"]

    def test_setext_sections(self) -> None:
        assert [step.section for step in load("T\n=\n\nImpact\n------\n\nx\n").steps] == ["Impact"]


class TestAlerts:
    def test_file_name_and_title_heading_that_are_alert_names(self) -> None:
        runbook = load("---\ntitle: Kube down\nalerts:\n  - Other\n---\n# KubeDown\n\nx\n", path="a/KubeDown.md")
        assert runbook.alerts == ["Other", "KubeDown"]

    def test_a_single_word_counts_when_file_and_heading_agree(self) -> None:
        assert load("# Watchdog\n\nx\n", path="a/Watchdog.md").alerts == ["Watchdog"]
        assert load("# Overview\n\nx\n", path="a/README.md").alerts == []

    def test_a_status_behind_the_name_is_ignored(self) -> None:
        assert load("# KubeDown [Deprecated]\n\nx\n").alerts == ["KubeDown"]


class TestFrontMatter:
    @pytest.mark.parametrize(
        ("yaml", "alerts"),
        [
            ("alerts: A, B", ["A", "B"]),
            ("alerts: [A, B]", ["A", "B"]),
            ("alerts:\n- name: A\n- alert: B", ["A", "B"]),
            ("alert: A", ["A"]),
            ("alerts: 5", ["5"]),
            ("alerts: true", []),
            ("alerts: null", []),
            ("alerts: [[A]]", []),
            ("alerts: {x: 1}", []),
        ],
    )
    def test_types_are_tolerated(self, yaml: str, alerts: list[str]) -> None:
        assert load(f"---\n{yaml}\n---\nx\n").alerts == alerts

    @pytest.mark.parametrize(
        ("yaml", "said"),
        [
            ("title: [1, 2]", "title is a list of things that are no text, so it is left out"),
            ("title: {a: 1}", "title is a mapping, so it is left out"),
            ("title: [A, B]", "title is a list, its first of 2 is taken"),
            ("tags: 5", "tags is a number, taken as the text 5"),
            ("tags: [a, {x: 1}, b]", "in tags a mapping is left out"),
            ("alerts: [[A]]", "in alerts a list is left out"),
            ("alerts: true", "alerts is true, so it is left out"),
            ("severity: {}", "severity is a mapping, so it is left out"),
            ("severity: false", "severity is false, so it is left out"),
            ("owner: [[x]]", "owner is a list, so it is left out"),
            ("title: T\nseverity: high\nservice: 3scale\nowners: [a]\ntags: a, b\nalerts: [{name: A}]\nlinks: x", None),
            ("title:\ntags: []\nseverity: ''\nlinks: null\nseverity: 1", None),
        ],
    )
    def test_what_makes_no_sense_is_said_and_the_file_taken(self, yaml: str, said: str | None) -> None:
        warnings: list[str] = []
        runbook = load_runbook(f"---\n{yaml}\n---\n# Heading\n\n1. look\n", runbook_id="r", warn=warnings.append)
        assert [step.body for step in runbook.steps] == ["look"]
        assert warnings == ([f"front matter: {said}"] if said else [])

    def test_a_list_of_numbers_is_no_title(self) -> None:
        assert load("---\ntitle: [1, 2]\n---\n# Heading\n\n1. look\n").title == "Heading"

    @pytest.mark.parametrize(
        ("matter", "line"),
        [
            ("---\ntitle: a\nowner: b: c\n---\nx\n", "line 3"),
            ("---\ntitle: [a\n---\nx\n", "line"),
            ('---\ntitle: "a\n---\nx\n', "line"),
            ("+++\ntitle = a\n+++\nx\n", "line 2"),
            ("---\ndate: 2024-13-45\n---\nx\n", "front matter"),
        ],
    )
    def test_broken_syntax_is_refused_with_its_line(self, matter: str, line: str) -> None:
        with pytest.raises(InvalidInput, match=f"front matter.*{line}|{line}") as caught:
            load(matter)
        assert caught.value.field == "front matter"

    def test_toml(self) -> None:
        assert load('+++\ntitle = "T"\ntags = ["a"]\n+++\nx\n').title == "T"

    def test_a_rule_at_the_top_is_not_front_matter(self) -> None:
        assert bodies("---\n\nJust text.\n\n---\n\nMore.\n") == ["Just text.\n\nMore."]

    def test_unclosed_front_matter_is_text(self) -> None:
        assert bodies("---\ntitle: a\n") == ["title: a"]

    def test_aliases_that_multiply_are_refused(self) -> None:
        bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(8)
        )
        with pytest.raises(InvalidInput, match="aliases"):
            load(f"---\n{bomb}---\nx\n")

    @pytest.mark.parametrize("unit", ["[", "- ", "{", "? "])
    def test_deep_nesting_is_refused(self, unit: str) -> None:
        with pytest.raises(InvalidInput):
            load(f"---\na: {unit * 20_000}\n---\nx\n")

    def test_python_tags_are_not_executed(self) -> None:
        with pytest.raises(InvalidInput):
            load("---\ntitle: !!python/object/apply:os.system ['true']\n---\nx\n")

    def test_defaults_hold_where_the_file_says_nothing(self) -> None:
        defaults = RunbookDefaults(service="redis", owner="sre", tags=("x",))
        runbook = load_runbook("---\nowner: dba\ntags: [y]\n---\nx\n", runbook_id="r", defaults=defaults)
        assert (runbook.service, runbook.owner, runbook.tags) == ("redis", "dba", ["y", "x"])


class TestNoise:
    @pytest.mark.parametrize(
        ("text", "body"),
        [
            ("a <!-- hidden --> b", "a  b"),
            ("<!--\nhidden\n\n```\nx\n```\n-->\n\nshown", "shown"),
            ("`<!-- code -->` stays", "`<!-- code -->` stays"),
            ("a <!-- never closed", "a  never closed"),
            ('See [x]({{< ref "./Other.md" >}}).', "See [x](./Other.md)."),
            ("{{< hint info >}}\nKeep.\n{{< /hint >}}", "Keep."),
            ("{{% notice %}}Keep.{{% /notice %}}", "Keep."),
            ("Pod {{ $labels.pod }} of {{ .Values.name | quote }}", "Pod {pod} of {name}"),
            ("{% if x %}Keep{% endif %} {# no #}", "Keep"),
            ("[x]({{ site.baseurl }}/page)", "[x](/page)"),
            ("`{{ .Name }}` stays", "`{{ .Name }}` stays"),
            ("a<br/>b <b>c</b> <pod-name>", "a b c <pod-name>"),
            ("<details><summary>More</summary>\n\ntext\n</details>", "More\n\ntext"),
            ("[[_TOC_]]\n\nx", "x"),
        ],
    )
    def test_is_removed_outside_of_code(self, text: str, body: str) -> None:
        assert [step.body.strip() for step in load(text).steps] == [body]

    def test_code_stays_as_it_is(self) -> None:
        fence = "```yaml\n{{ .Values.x }} <!-- keep --> {% raw %} <b>\n```"
        assert bodies(fence) == [fence]

    def test_line_numbers_survive(self) -> None:
        text = "---\ntitle: T\n---\n<!--\ntwo\nlines -->\n{{< x >}}\n1. a\n"
        assert [(step.line_start, step.line_end) for step in load(text).steps] == [(8, 8)]


class TestBadInput:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "empty"),
            (" \n\t\n", "empty"),
            ("---\ntitle: node\nweight: 10\n---\n", "besides the front matter"),
            ("# Only a title\n", "no content besides the title"),
            ("---\ntitle: T\n---\n# T\n\n<!-- TODO -->\n", "no content besides the title"),
            ("text\n\0", "line 2"),
        ],
    )
    def test_is_refused_with_a_reason(self, text: str, reason: str) -> None:
        with pytest.raises(InvalidInput, match=reason):
            load(text)

    def test_a_bad_id_is_named(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            load_runbook("x", runbook_id="a/b")
        assert caught.value.field == "id"

    def test_too_large(self) -> None:
        with pytest.raises(TooLarge):
            load("ä" * (MAX_MARKDOWN_BYTES // 2 + 1))
        with pytest.raises(TooLarge):
            decode_markdown(b"a" * (MAX_MARKDOWN_BYTES + 1))

    def test_too_many_lines(self) -> None:
        with pytest.raises(TooLarge, match="lines"):
            load("a\n" * 20_001)

    def test_too_many_steps(self) -> None:
        with pytest.raises(InvalidInput, match="steps"):
            load("1. a\n" * 2001)

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"abc\xffdef", "byte offset 3"),
            (b"ab\0", "byte offset 2"),
            ("text".encode("utf-16"), "UTF-16"),
            (b"\xed\xa0\x80", "byte offset 0"),
        ],
    )
    def test_bytes_that_are_no_text(self, data: bytes, reason: str) -> None:
        with pytest.raises(InvalidInput, match=reason):
            decode_markdown(data)


def test_byte_order_mark_and_crlf() -> None:
    text = decode_markdown(b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\n\r\n1. a\r\n\r\n   ```\r\n   x\r\n   ```\r\n")
    assert load(text) == load(text.replace("\r\n", "\n"))
    assert load(text).steps[0].body == "a\n\n```\nx\n```"


def test_invisible_characters_are_removed_and_counted() -> None:
    hidden = "re\u200bstart \u202enow\u202c\x1b[31m red\x1b[0m \ue000\U000e0041\x07"
    assert strip_invisible(hidden) == ("restart now red ", 8)
    assert bodies(hidden) == ["restart now red"]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert bodies("1. Run\n\n```sh\nls\n\n2. no step\n") == ["Run\n\n```sh\nls\n\n2. no step"]


def test_secrets_are_redacted() -> None:
    token = "ghp_" + "a1B2" * 9
    matter = f"---\ntitle: Replace {token}\nrunbook_url: https://runbooks.example.com/?a={token}\n---\n"
    runbook = load(f"{matter}1. `export PGPASSWORD=hunter2`\n")
    assert "hunter2" not in runbook.model_dump_json()
    assert "<redacted:password:" in runbook.steps[0].body
    assert token not in runbook.model_dump_json()
    assert runbook.title.startswith("Replace <redacted:github-token:")
    assert len(runbook.links) == 1


def test_the_same_text_gives_the_same_content() -> None:
    assert load(FULL).content_sha() == load(FULL).content_sha()


PIECES = [
    "# T\n", "## 1. x\n", "1. a\n", "1) b\n", "- c\n", "- [ ] d\n", "   ", "\n", "```\n", "~~~\n", "> ", "---\n", "+++\n",
    "| a |\n|---|\n", "<!--", "-->", "{{< x >}}", "{{ $a.b }}", "{% x %}", "[a]: b\n", "[a]", "T\n===\n", "\t", "\r\n", "\u200b",
    "title: x\n", "<details>", "`", "text ",
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_markdown_loads_or_is_refused(text: str) -> None:
    try:
        runbook = load(text)
    except InvalidInput:
        return
    lines = text.replace("\r\n", "\n").count("\n") + 1
    numbers = [step.number for step in runbook.steps]
    assert numbers == sorted(set(numbers))
    assert all(step.body.strip() and 1 <= step.line_start <= step.line_end <= lines for step in runbook.steps)


@pytest.mark.parametrize(
    "unit",
    ["[", "`", "*", "> ", "- ", "<!--", "{{", "{{<", "<a ", "[a]: b\n", "| a ", "# a\n", "1. a\n", "\n", "    ", "<!-- -->", "```\n", "![](", "\\"],
)  # fmt: skip
def test_hostile_markdown_takes_linear_time(unit: str) -> None:
    def work(size: int) -> None:
        with suppress(InvalidInput):
            load(unit * (size // len(unit)))

    assert_linear(work, 20_000)
