"""Spellings of one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retriever_corpus import Document, Search, write

from cairn_retriever.vocabulary import FILLERS, GROUPS, fillers, spellings

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool


def test_no_word_means_two_things() -> None:
    words = [word for group in GROUPS for word in group]
    assert len(words) == len(set(words))


def test_singular_and_plural_are_known() -> None:
    assert spellings("the slaves of the master") == (
        ("replica", "slave", "standby", "secondary"),
        ("primary", "master"),
    )


def test_parts_of_words_are_not_words() -> None:
    assert spellings("mastery of dbx and configurations2") == ()


def test_fillers_are_found_in_any_case() -> None:
    assert fillers("Please HELP, redis is weird again. please!") == ("please", "help", "weird", "again")


def test_no_filler_has_another_spelling() -> None:
    assert not FILLERS.intersection(*[[word for group in GROUPS for word in group]])


async def test_fillers_do_not_lower_the_coverage(pool: Pool, search: Search) -> None:
    await write(pool, [Document("saving", "Redis snapshots", ["Saving snapshots fails."])])
    plain = await search("redis snapshots", mode="keyword")
    told = await search("hello, can somebody please help, redis snapshots went crazy yesterday", mode="keyword")
    unknown = await search("redis snapshots on kubernetes", mode="keyword")
    assert plain.gate.best_coverage == told.gate.best_coverage == 1.0
    assert unknown.gate.best_coverage < 1.0


async def test_an_alert_that_no_page_declares_is_judged_by_its_words(pool: Pool, search: Search) -> None:
    await write(pool, [Document("saving", "Redis snapshots", ["Saving snapshots fails."])])
    assert (await search("RedisSnapshotsSaving", mode="keyword")).gate.best_coverage == 1.0
    assert (await search("KubeFooBarBaz", mode="keyword")).gate.best_coverage == 0.0


async def test_a_nickname_finds_the_full_name(pool: Pool, search: Search) -> None:
    await write(
        pool,
        [
            Document("full", "PostgreSQL connections", ["Count them."]),
            Document("other", "MySQL connections", ["Count them."]),
        ],
    )
    for query in ("pg conns", "postgres connections"):
        found = await search(query, mode="keyword")
        assert found.results[0].runbook_id == "full"


async def test_two_spellings_of_one_thing_count_once(pool: Pool, search: Search) -> None:
    """Otherwise a page that writes both would win over one that answers."""
    both = Document("both", "Names", ["postgres, also postgresql, also pg"])
    one = Document("one", "Sessions", ["postgres holds idle sessions"])
    await write(pool, [both, one, *(Document(f"o{i}", f"Topic {i}", [f"Matter {i}."]) for i in range(9))])
    found = await search("postgres idle sessions", mode="keyword")
    assert found.results[0].runbook_id == "one"


async def test_spellings_in_different_steps_count_once_too(pool: Pool, search: Search) -> None:
    both = Document("both", "Names", ["postgres here", "postgresql there", "pg elsewhere"])
    one = Document("one", "Sessions", ["postgres holds idle sessions"])
    await write(pool, [both, one, *(Document(f"o{i}", f"Topic {i}", [f"Matter {i}."]) for i in range(9))])
    found = await search("postgres sessions", mode="keyword")
    assert found.results[0].runbook_id == "one"


async def test_the_query_need_not_be_covered_twice(pool: Pool, search: Search) -> None:
    await write(pool, [Document("full", "PostgreSQL backups", ["Take them."])])
    found = await search("pg backups", mode="keyword", explain=True)
    assert found.results[0].features["coverage"] == 1.0
    assert found.explain is not None
    assert {one["lexeme"]: one["asked"] for one in found.explain["lexemes"]} == {
        "pg": True,
        "postgresql": False,
        "postgr": False,
        "backup": True,
    }
