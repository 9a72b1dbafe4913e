"""Questions made from the pages of every corpus, with a seed: what fitting and measuring stand on.

Each has a page that it was made from, or that another page says it is about. Nothing here knows what the retriever
does with a question.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from eval_corpora import Page

from cairn_shared.identifiers import split_camel_case

SEED = 20261201
MOST_HOLDERS = 5
"""A sentence that more pages hold than this is nobody's."""

EACH = 2
"""Questions of one page, of as many kinds."""

Neighbours = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Made:
    """A question. `right` are the keys of the pages that answer it, `gone` those that it is asked without."""

    id: str
    kind: str
    corpus: str
    text: str
    right: frozenset[str]
    gone: frozenset[str] = frozenset()
    only: str | None = None
    """The one corpus that is searched."""
    quote: str | None = None
    """What the right step holds word by word, where that is known."""


def made(pages: Sequence[Page], same: Mapping[str, frozenset[str]], neighbours: Neighbours) -> list[Made]:
    """All questions with an answer, in a fixed order."""
    sentences = {page.key: list(_sentences(page)) for page in pages}
    holders: dict[str, set[str]] = defaultdict(set)
    for key, said in sentences.items():
        for sentence in said:
            holders[_plain(sentence)].add(key)

    def right(key: str, sentence: str = "") -> frozenset[str]:
        others = holders.get(_plain(sentence), set())
        return frozenset().union(same[key], *(same[other] for other in others))

    own = {
        key: [one for one in said if len(holders[_plain(one)]) <= MOST_HOLDERS and 7 <= len(one.split()) <= 32]
        for key, said in sentences.items()
    }
    found: list[Made] = []
    for page in pages:
        dice = random.Random(f"{SEED} {page.key}")
        found += _of_page(page, own[page.key], right, neighbours, dice)
    found += _linked(pages, same, right)
    found += _siblings(pages, same, own)
    return found


def _of_page(
    page: Page, own: Sequence[str], right: Callable[..., frozenset[str]], neighbours: Neighbours, dice: random.Random
) -> Iterator[Made]:
    def one(kind: str, text: str, quote: str | None) -> Made:
        return Made(f"{kind} {page.key}", kind, page.corpus, text, right(page.key, quote or ""), quote=quote)

    every = list(_every(page, own, one, neighbours, dice))
    chosen = dice.sample(range(len(every)), min(EACH, len(every)))
    yield from (every[place] for place in sorted(chosen))


def _every(
    page: Page, own: Sequence[str], one: Callable[..., Made], neighbours: Neighbours, dice: random.Random
) -> Iterator[Made]:
    """A question of each kind."""
    title = _title_words(page)
    told = dice.sample(list(own), min(4, len(own)))
    if told:
        yield one("own words", told[0], told[0])
    if len(told) > 1:
        text = _reworded(told[1], title, neighbours, dice)
        if len(text.split()) >= 4:
            yield one("reworded", text, told[1])
    if len(told) > 2:
        yield one("pasted", _pasted(told[2], dice), told[2])
    if len(told) > 3:
        yield one("misspelt", _misspelt(_shortened(told[3], dice), dice, 2), told[3])
    if len(title) >= 2:
        words = [word for word in title if dice.random() > 0.2] or title
        dice.shuffle(words)
        about = [word for word in _content(dice.choice(own))[:3] if word not in words][:2] if own else []
        text = " ".join(words + about)
        yield one("terse", _noisy(text, dice), None)
        yield one("terse, misspelt", _misspelt(" ".join(words), dice, 1), None)


def taken_away(questions: Sequence[Made]) -> list[Made]:
    """The same without the pages that answer them."""
    return [
        replace(one, id=f"without {one.id}", right=frozenset(), gone=one.gone | one.right)
        for one in questions
        if one.right
    ]


def elsewhere(questions: Sequence[Made], related: Sequence[frozenset[str]], corpora: Sequence[str]) -> list[Made]:
    """Questions of one corpus asked of one that is about something else; every third of them, for there are many."""
    found = []
    for number, one in enumerate(questions):
        family = frozenset({one.corpus}).union(*(group for group in related if one.corpus in group))
        others = [corpus for corpus in corpora if corpus not in family]
        if number % 3 == 0 and others and one.only is None:
            only = others[number // 3 % len(others)]
            found.append(replace(one, id=f"in {only}: {one.id}", right=frozenset(), gone=one.right, only=only))
    return found


_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<!--.*?-->|\A---\n.*?\n---\n", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_MARKS = re.compile(r"^[ \t]*(?:#{1,6}|[-*+>]|\d+[.)]|\|)[ \t]*|[*_`|]|<[^>\n]{1,200}>|\{[{%<].*?[}%>]\}", re.MULTILINE)
_END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n|\n(?=\s*(?:[-*+]|\d+[.)])\s)")


def _sentences(page: Page) -> Iterator[str]:
    """Prose of the page, sentence by sentence, without markup, code and headings."""
    text = _LINK.sub(r"\1", _FENCE.sub("\n\n", page.text))
    text = re.sub(r"^#.*$", "\n", text, flags=re.MULTILINE)
    for part in _END.split(text):
        sentence = " ".join(_MARKS.sub(" ", part).split())
        if len(sentence.split()) >= 5 and sum(map(str.isalpha, sentence)) > 0.7 * len(sentence.replace(" ", "")):
            yield sentence


def _plain(sentence: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", sentence.casefold()))


_WORD = re.compile(r"[A-Za-z][A-Za-z-]+")


def _title_words(page: Page) -> list[str]:
    stem = PurePosixPath(page.path).name.partition(".")[0]
    name = page.book.title if len(page.book.title.split()) > 1 else f"{page.book.title} {stem}"
    words = _WORD.findall(split_camel_case(name).casefold().replace("-", " "))
    return list(dict.fromkeys(word for word in words if len(word) > 2))


def _content(text: str) -> list[str]:
    """The longer words of a sentence: short ones carry its grammar."""
    return [word.casefold() for word in _WORD.findall(text) if len(word) > 4]


def _stem(word: str) -> str:
    return word.casefold()[:5]


def _reworded(sentence: str, title: Sequence[str], neighbours: Neighbours, dice: random.Random) -> str:
    """Told by somebody who has not read the page: none of the title's words, most others replaced, some left out."""
    avoided = {_stem(word) for word in title}
    told: list[str] = []
    for word in re.findall(r"[A-Za-z][\w'-]*|\d[\w.]*", sentence):
        others = [other for other in neighbours(word.casefold()) if _stem(other) not in avoided]
        if len(word) > 4 and others and (dice.random() < 0.6 or _stem(word) in avoided):
            told.append(dice.choice(others[:3]))
        elif _stem(word) not in avoided and dice.random() > 0.1:
            told.append(word.casefold())
    return " ".join(told)


def _shortened(sentence: str, dice: random.Random) -> str:
    words = sentence.split()
    start = dice.randrange(max(1, len(words) - 9))
    return " ".join(words[start : start + 10])


_HOSTS = ("prod-db-7", "ip-10-2-33-4", "node-eu-3.internal", "checkout-7d9f8b6c5-x2x9k", "srv12", "worker-04")
_TICKETS = ("OPS-4411", "INC0098123", "CHG0091822", "SRE-77", "PAY-1290")
_PREFIXES = (
    "2026-11-30T03:12:44.012Z ERROR [main] ",
    "Nov 30 03:12:44 {host} app[2291]: ",
    "[{host}] WARN ",
    'level=error ts=2026-11-30T03:12:44Z caller=main.go:88 msg="',
    "hey, since 10 min on {host}, see {ticket}: ",
    "{ticket} ",
)


def _pasted(sentence: str, dice: random.Random) -> str:
    prefix = dice.choice(_PREFIXES).format(host=dice.choice(_HOSTS), ticket=dice.choice(_TICKETS))
    return prefix + sentence + ('"' if prefix.endswith('"') else "")


def _noisy(text: str, dice: random.Random) -> str:
    extra = [dice.choice(_HOSTS)] * (dice.random() < 0.4) + [dice.choice(_TICKETS)] * (dice.random() < 0.4)
    words = [*text.split(), *extra]
    return " ".join(words) + dice.choice(("", "", " plz help", "?", " asap", " what now"))


def _misspelt(text: str, dice: random.Random, count: int) -> str:
    """`count` of its longer words with a letter dropped, doubled, or swapped with the next."""
    words = text.split()
    places = [place for place, word in enumerate(words) if len(word) > 4 and word.isalpha()]
    for place in dice.sample(places, min(count, len(places))):
        word = words[place]
        at = dice.randrange(1, len(word) - 1)
        words[place] = dice.choice(
            (
                word[:at] + word[at + 1 :],
                word[:at] + word[at] + word[at:],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            )
        )
    return " ".join(words)


_POINTER = re.compile(r"\[([^\]\n]+)\]\(([^)\s#]+)[^)\n]*\)")


def _linked(
    pages: Sequence[Page], same: Mapping[str, frozenset[str]], right: Callable[..., frozenset[str]]
) -> Iterator[Made]:
    """What other pages of its corpus say where they link to a page: the sentence around the link."""
    of_path = {(page.corpus, page.path.casefold()): page for page in pages}
    of_stem: dict[tuple[str, str], list[Page]] = defaultdict(list)
    for page in pages:
        of_stem[page.corpus, page.stem].append(page)
    seen: dict[str, set[str]] = defaultdict(set)
    for page in pages:
        for line in page.text.splitlines():
            for match in _POINTER.finditer(line):
                target = _target(page, match[2], of_path, of_stem)
                sentence = " ".join(_MARKS.sub(" ", _LINK.sub(r"\1", line)).split())
                words = len(sentence.split())
                if target is None or target.key in same[page.key] or not 3 <= words <= 40:
                    continue
                if line.count("](") > 1 or len(seen[target.key]) >= 2 or _plain(sentence) in seen[target.key]:
                    continue
                seen[target.key].add(_plain(sentence))
                # The page that says it holds the question word by word: it is as good an answer as the one it names.
                name = f"linked {target.key} {len(seen[target.key])}"
                yield Made(name, "linked", page.corpus, sentence, right(target.key), gone=same[page.key])


def _target(
    page: Page,
    link: str,
    of_path: Mapping[tuple[str, str], Page],
    of_stem: Mapping[tuple[str, str], list[Page]],
) -> Page | None:
    if link.startswith(("http", "#", "mailto")) and page.corpus not in link:
        return None
    parts: list[str] = []
    for part in (PurePosixPath(page.path).parent / link.lstrip("/")).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    path = "/".join(parts).replace("%20", " ").casefold()
    if (exact := of_path.get((page.corpus, path))) is not None:
        return exact
    named = of_stem.get((page.corpus, PurePosixPath(link).name.partition(".")[0].casefold()), [])
    return named[0] if len(named) == 1 else None


def _siblings(
    pages: Sequence[Page], same: Mapping[str, frozenset[str]], own: Mapping[str, Sequence[str]]
) -> Iterator[Made]:
    """What one corpus says about an alert, asked of what the others say about it: a paraphrase that nobody made up."""
    corpus_of = {page.key: page.corpus for page in pages}
    for page in pages:
        others = frozenset(other for other in same[page.key] if corpus_of[other] != page.corpus)
        mine = same[page.key] - others
        if others and own[page.key]:
            # A page says in its first sentences what it is about.
            for number, sentence in enumerate(own[page.key][:2]):
                corpus = corpus_of[min(others)]
                yield Made(f"sibling {page.key} {number}", "sibling", corpus, sentence, others, gone=mine)
