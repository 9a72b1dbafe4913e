"""Exact identifiers in operational text: one extractor for documents and for queries.

Postgres' text parser cuts `PROJ-123`, `v1.2.3`, `/etc/x.conf` and `test_login_timeout` in ways that differ between
document and query, and stems what is left. So identifiers are compared as whole array elements instead, and
`searchable_text` makes their parts plain words for the tsvector.

Every identifier returned occurs verbatim, apart from case, in the text it came from. Both functions take time
linear in the text, whatever it holds: words are bounded before any pattern looks at them.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from http import HTTPStatus
from ipaddress import AddressValueError, IPv4Address, IPv6Address

MAX_IDENTIFIERS = 256
"""Most identifiers taken from one text, in order of first occurrence."""

MAX_IDENTIFIER_LENGTH = 200
"""Longer words are data (base64, minified code), not names."""

_WORD = re.compile(r"[A-Za-z0-9_./:@#~+\-]{2,}")
_PLAIN = re.compile(r"[A-Za-z]?[a-z]*|\d{1,6}")
_FLAG = re.compile(r"--?[A-Za-z][\w.:+-]*")
_ISSUE = re.compile(r"#\d{1,9}")
_HEX = re.compile(r"(?=[a-f]*\d)[0-9a-f]{7,64}|(?=[A-F]*\d)[0-9A-F]{7,64}")
_HEX_LITERAL = re.compile(r"0[xX][0-9A-Fa-f]{2,}")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}")
_VERSION = re.compile(r"(?:[vV]\d+(?:\.\d+)*|\d+\.\d+(?:\.\d+)+)(?:(?:alpha|beta|rc|[-+._])[0-9A-Za-z.+-]*)?")
_HYPHENATED = re.compile(r"[A-Za-z]\w*(?:-\w+)+")
_TICKET = re.compile(r"(?<![A-Za-z0-9])[A-Z][A-Z0-9]{1,15}-\d{1,7}(?![A-Za-z0-9]|-\d)")
_LEADING_TICKET = re.compile(r"[A-Za-z][A-Za-z0-9]{1,15}-\d{1,7}(?=[-_][A-Za-z])")
_BRANCH = re.compile(r"(?:feature|feat|bugfix|hotfix|fix|release|chore|origin|refs|dependabot|renovate)/")
_DOTTED = re.compile(r"\.?[A-Za-z_][\w-]*(?:\.[\w-]+)+")
_DOTFILE = re.compile(r"\.[A-Za-z][\w-]{2,}")
_SNAKE = re.compile(r"(?=[\d_]*[A-Za-z])[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)+")
_IMAGE = re.compile(r"[a-z][\w.-]*:\d+\.\d+")
_CODE = re.compile(r"[A-Za-z]{1,8}\d{3,}|\d{1,2}[A-Z]\d{2}[A-Z0-9]?")
_CAMEL = re.compile(r"(?=\w*[a-z][A-Z]|\w*[A-Z]{2}[a-z]|[A-Z]+[a-z]\w*[A-Z])[A-Za-z][A-Za-z0-9]+")
_PLURAL_ACRONYM = re.compile(r"[A-Z]{2,}s")
_STATUS_CLASS = re.compile(r"[1-5][xX]{2}")
_HAS_DIGIT = re.compile(r"\d")
_CONSTANT = re.compile(r"(?!(?:WARNING|CRITICAL|SQLSTATE)$)[A-Z]{6,24}")
"""`MISCONF`, `CROSSSLOT`: an error's own word. `SELECT` is one too; rarity tells the retriever what names a thing."""
_SIGNAL = re.compile(r"SIG[A-Z]{2,6}\d?")
_ERRNO = frozenset(errno.errorcode.values()) - {"EOF"}

_REASONS = "|".join(re.escape(status.phrase) for status in HTTPStatus)
_CONTEXT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bhttps?(?:/\d(?:\.\d)?)?(?:[ _-](?:status|code|error)){0,2}[\s:=(]{1,3}([1-5]\d\d)\b",
        r"\b(?:status|returned|returns|response|got)(?:[ _-]code)?[\s:=(]{1,3}([1-5]\d\d)\b",
        rf"\b([1-5]\d\d) (?:errors?|responses?|{_REASONS})\b",
        r"\berror(?:[ _-](?:code|number))?[\s:=(#]{1,3}(\d{3,6})\b",
        r"\b(?:errno|exit(?:[ _-](?:code|status))?|exited with|signal)(?: code)?[\s:=(]{1,3}(\d{1,3})\b",
        r"\bports?[\s:=(]{1,3}(\d{2,5})\b",
        r"\bsqlstate\W{1,4}([0-9A-Z]{5})\b",
        r"\b(?:version|release)[\s:=]{1,3}(\d+\.\d+)\b",
    )
)

_PRODUCT = re.compile(
    "BitBucket|ClickHouse|CloudFlare|CloudWatch|CockroachDB|DataDog|DevOps|DynamoDB|ElasticSearch|GitHub|GitLab|GitOps"
    "|GraphQL|IPv[46]|JavaScript|LinkedIn|MacOS|MariaDB|MongoDB|MySQL|NewRelic|NodeJS|OpenSSH|OpenShift|OpenSSL"
    "|OpenStack|OpenTelemetry|PagerDuty|PgBouncer|PostgreSQL|PowerShell|RabbitMQ|ScyllaDB|SQLite|StatsD|TimescaleDB"
    "|TypeScript|VirtualBox|VMware|WordPress|YouTube|ZooKeeper",
    re.IGNORECASE,
)
"""Names written in CamelCase that say what a text is about rather than name one thing in it."""


def identifiers(text: str) -> list[str]:
    """The identifiers of `text`, casefolded, each once: whole tokens and the parts of them that are useful alone.

    Tickets, issue numbers, error codes, errnos, SQLSTATEs, commit hashes (also abbreviated as git does), UUIDs,
    versions, snake_case, CamelCase, words in capitals, dotted names, files and paths, URLs, hosts, `host:port`,
    IPv4 and IPv6 addresses, flags, and status codes, exit codes and ports where the words around say that they are
    such.
    `feature/PROJ-123-fix` also gives `proj-123`; `PROJ-12` and `PROJ-123` have nothing in common.
    """
    found: dict[str, None] = {}
    for candidate in _candidates(text):
        if 1 < len(candidate) <= MAX_IDENTIFIER_LENGTH:
            found[candidate.casefold()] = None
            if len(found) >= MAX_IDENTIFIERS:
                break
    return list(found)


def _candidates(text: str) -> Iterator[str]:
    for pattern in _CONTEXT:
        for match in pattern.finditer(text):
            yield match[1]
    seen: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0]
        if word in seen or _PLAIN.fullmatch(word):
            continue
        seen.add(word)
        if len(word) > MAX_IDENTIFIER_LENGTH:
            # A long URL or path still has short parts worth finding.
            if len(word) <= 10 * MAX_IDENTIFIER_LENGTH and "/" in word:
                for part in word.split("/"):
                    yield from _of_word(part)
        else:
            yield from _of_word(word)


def _of_word(word: str) -> Iterator[str]:
    word = word.rstrip(".:-/+~#@_") if not word.endswith("::") else word
    if _FLAG.fullmatch(word):
        yield word
        return
    word = word.lstrip("-+@")
    if word.startswith("#"):
        if _ISSUE.fullmatch(word):
            yield word
            return
        word = word.lstrip("#")
    if _address(word):
        yield word
        return
    _, separator, rest = word.partition("://")
    if separator and rest:
        yield word
        authority, _, path = rest.partition("/")
        yield from _of_authority(authority)
        if path := path.partition("#")[0]:
            yield from _of_path("/" + path)
        return
    if "/" in word.lstrip("/") or word[:1] in "/~":
        yield from _of_path(word)
        return
    yield from _of_authority(word.lstrip(":/~"))


def _of_path(word: str) -> Iterator[str]:
    parts = [part for part in word.split("/") if part not in ("", ".", "..", "~")]
    if not parts:
        return
    host, _, prefix = word.partition("/")
    if prefix.isdigit() and _address(host):
        yield word
        yield host
        return
    inner = [name for part in parts for name in _of_authority(part)]
    rooted = word[0] in "/~." and not all(part.isdigit() for part in parts)
    if rooted or inner or _BRANCH.match(word) or (len(parts) > 2 and not all(part.isdigit() for part in parts)):
        yield word
    yield from inner


def _of_authority(word: str) -> Iterator[str]:
    """`user@host:port`, `image:tag`, `rule:metric:rate`, `owner#12`, or a single name."""
    word = word.strip(":")
    if "#" in word:
        name, _, number = word.partition("#")
        if number.isdigit():
            yield word
            yield "#" + number
        word = name
    if "@" in word:
        user, _, host = word.rpartition("@")
        inner = [*_of_name(user), *_of_authority(host)]
        if inner:
            yield word
        yield from inner
        return
    if ":" in word:
        if _MAC.fullmatch(word) or _address(word):
            yield word
            return
        parts = [part for part in word.split(":") if part]
        inner = [name for part in parts for name in _of_name(part)]
        host, _, port = word.rpartition(":")
        # A port of four digits says something alone; `Server.java:17` is a line of a stack trace.
        if port.isdigit() and 4 <= len(port) <= 5 and not host[:1].isdigit() and ":" not in host:
            inner.append(port)
        elif _address(host) and port.isdigit():
            inner = [host, port]
        if inner or _IMAGE.fullmatch(word):
            yield word
        yield from inner
        return
    yield from _of_name(word)


def _of_name(word: str) -> Iterator[str]:
    """A word without `/`, `:`, `@` or `#`."""
    word = word.strip("-+~").rstrip("._")
    if len(word) < 2 or _PLAIN.fullmatch(word):
        return
    if _UUID.fullmatch(word) or _address(word) or _HEX_LITERAL.fullmatch(word) or _MAC.fullmatch(word):
        yield word
    elif _HEX.fullmatch(word):
        yield from _of_hash(word)
    elif _VERSION.fullmatch(word):
        yield word
        if word[0] in "vV" and "." in word:
            yield word[1:]
    elif "." in word:
        yield from _of_dotted(word)
    elif "-" in word:
        yield from _of_hyphenated(word)
    elif "_" in word:
        if _SNAKE.fullmatch(word := word.strip("_")):
            yield word
    elif _is_single_name(word):
        yield word


def _of_hash(word: str) -> Iterator[str]:
    """A hash, and the abbreviations under which people quote it (git 7 to 12, container ids 12)."""
    yield word
    if len(word) in (40, 64):
        for length in range(7, 13):
            yield word[:length]
    elif 7 < len(word) <= 12 and not word.isdigit():
        yield word[:7]


def _of_dotted(word: str) -> Iterator[str]:
    if not _DOTTED.fullmatch(word):
        if _DOTFILE.fullmatch(word):
            yield word
        return
    parts = [part for part in word.split(".") if part]
    if max(map(len, parts)) < 3:
        return  # e.g. i.e. a.m.
    yield word.lstrip(".")
    for part in parts:
        if "-" in part:
            yield from _of_hyphenated(part)
        elif "_" in part.strip("_") or _CAMEL.fullmatch(part):
            yield part.strip("_")


def _of_hyphenated(word: str) -> Iterator[str]:
    """Tickets, error codes and hosts have a digit somewhere; `read-only` and `up-to-date` are prose."""
    if not _HYPHENATED.fullmatch(word) or not _HAS_DIGIT.search(word):
        return
    yield word
    for match in _TICKET.finditer(word):
        yield match[0]
    if leading := _LEADING_TICKET.match(word):
        yield leading[0]


def _is_single_name(word: str) -> bool:
    if _CODE.fullmatch(word) or _STATUS_CLASS.fullmatch(word) or word in _ERRNO or _SIGNAL.fullmatch(word):
        return True
    if _CONSTANT.fullmatch(word):
        return True
    camel = _CAMEL.fullmatch(word) and not _PLURAL_ACRONYM.fullmatch(word)
    return bool(camel) and not _PRODUCT.fullmatch(word)


def _address(word: str) -> bool:
    """An IPv4 or IPv6 address (RFC 4291 §2.2), with no port or prefix length."""
    if len(word) > 45 or len(word) < 3:
        return False
    try:
        if word.count(":") >= 2:
            IPv6Address(word)
        elif word.count(".") == 3 and word[0].isdigit():
            IPv4Address(word)
        else:
            return False
    except AddressValueError:
        return False
    return True


_PUNCTUATION = re.compile(r"[!-&(-/:-@\[-`{-~]+")
_CAMEL_WORD = re.compile(r"\b[A-Za-z][A-Za-z0-9]{3,63}\b")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*|[0-9]+")


def searchable_text(text: str) -> str:
    """`text` as plain words for to_tsvector: no punctuation that its parser would join, read as a tag or drop.

    `_`, `-`, `/`, `.` and all other ASCII punctuation but the apostrophe become spaces. A CamelCase word stays and
    is followed by its parts (`KubePodCrashLooping Kube Pod Crash Looping`), so that either finds it.
    """
    return _CAMEL_WORD.sub(_with_humps, _PUNCTUATION.sub(" ", text))


def camel_case_names(text: str) -> list[str]:
    """The words that `searchable_text` follows by their parts, case-folded, each once."""
    return list(dict.fromkeys(match[0].casefold() for match in _CAMEL_WORD.finditer(text) if _humps(match[0])))


def split_camel_case(text: str) -> str:
    """`text` with CamelCase names as words (`Kube Pod Crash Looping`), as an embedding model can read them.

    Names of products stay: a model knows `PostgreSQL`, and nobody says `Postgre SQL`.
    """
    return _CAMEL_WORD.sub(_only_humps, text)


def _with_humps(match: re.Match[str]) -> str:
    return " ".join([match[0], *_humps(match[0])])


def _humps(word: str) -> list[str]:
    """The parts of a CamelCase word, none of another."""
    parts = [] if _is_one_word(word) else _HUMP.findall(word)
    return parts if len(parts) > 1 else []


def _only_humps(match: re.Match[str]) -> str:
    word = match[0]
    return word if _is_one_word(word) or _PRODUCT.fullmatch(word) else " ".join(_HUMP.findall(word))


def _is_one_word(word: str) -> bool:
    return bool(_PLAIN.fullmatch(word) or _PLURAL_ACRONYM.fullmatch(word))
