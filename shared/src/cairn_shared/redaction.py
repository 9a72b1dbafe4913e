"""Secrets out of text before it is stored, embedded, cached or logged.

A secret becomes `<redacted:type:4-hex>`, the hex being the start of its SHA-256: the same secret gives the same
mark, so that texts can still be compared, and redacting twice changes nothing. What only looks random survives:
commit hashes, UUIDs and digests are what people search for, so randomness counts only behind a word like `token`.
Placeholders (`<password>`, `$PGPASSWORD`, `********`) survive too, since they are what a runbook has to say.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

_TOKENS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (kind, hints, re.compile(pattern))
    for kind, hints, pattern in (
        ("aws-key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
        ("google-key", ("AIza", "ya29."), r"\bAIza[\w-]{35}(?![\w-])|\bya29\.[\w-]{20,}"),
        (
            "github-token",
            ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
            r"\bgh[pousr]_[A-Za-z0-9]{30,255}\b|\bgithub_pat_\w{22,255}\b",
        ),
        ("gitlab-token", ("gl",), r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt)-[\w-]{20,300}"),
        ("slack-token", ("xox", "xapp-"), r"\bxox[abeoprs]-[A-Za-z0-9-]{10,300}|\bxapp-\d-[A-Za-z0-9-]{10,300}"),
        (
            "slack-webhook",
            ("hooks.slack.com/services/",),
            r"(?<=hooks\.slack\.com/services/)[A-Z0-9]{6,20}/[A-Z0-9]{6,20}/[A-Za-z0-9]{16,64}",
        ),
        ("stripe-key", ("k_live_", "k_test_"), r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}\b"),
        ("api-key", ("sk-",), r"\bsk-(?=[A-Za-z_-]{0,255}\d)[\w-]{20,255}"),
        ("api-key", ("SG.",), r"\bSG\.[\w-]{20,24}\.[\w-]{39,50}"),
        (
            "api-key",
            ("npm_", "hf_", "glsa_", "pypi-", "_v1_"),
            r"\b(?:npm|hf|glsa)_[A-Za-z0-9_]{30,255}\b|\bpypi-[\w-]{50,255}|\bdo[opr]_v1_[a-f0-9]{64}\b",
        ),
        (
            "api-key",
            ("hvs.", "hvb.", "ATATT3", "AGE-SECRET-KEY-1"),
            r"\bhv[sb]\.[\w-]{20,300}|\bATATT3[\w=-]{20,300}|\bAGE-SECRET-KEY-1[A-Z0-9]{50,70}",
        ),
        (
            "api-key",
            ("SK", "NRAK-", "dapi", "xkeysib-"),
            r"\bSK[0-9a-f]{32}\b|\bNRAK-[A-Z0-9]{27}\b|\bdapi[0-9a-f]{32}\b|\bxkeysib-[0-9a-f]{64}-\w{16}\b",
        ),
        ("api-key", ("lin_", "sq0"), r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,64}\b|\bsq0(?:csp|atp|idp)-[\w-]{22,60}"),
        (
            "api-key",
            ("shp", "glc_", "sntr"),
            r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b|\bglc_[A-Za-z0-9+/]{32,400}|\bsntr(?:ys|yu)_[\w=+/-]{40,500}",
        ),
        (
            "api-key",
            ("dckr_", "pscale_", "dp.pt."),
            r"\bdckr_(?:pat|oat)_[\w-]{27,64}|\bpscale_(?:tkn|pw|oauth)_[\w=.-]{32,64}|\bdp\.pt\.[A-Za-z0-9]{40,44}",
        ),
        ("api-key", (".atlasv1.", "ntn_"), r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,80}|\bntn_[A-Za-z0-9]{40,50}\b"),
        (
            "bot-token",
            (":AA", "M", "N", "O"),
            r"\b\d{8,10}:AA[\w-]{32,34}(?![\w-])|\b[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])",
        ),
        ("jwt", ("eyJ",), r"\beyJ[\w-]{5,8192}\.[\w-]{5,8192}\.[\w-]{0,2048}"),
    )
)

_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_MATERIAL = re.compile(r"(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,})+")

_USERINFO = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'<>]{0,200}:)([^\s/\"'<>]{1,500})(?=@)")
_USER_OPTION = re.compile(r"(\bcurl\b[^\n|;]{0,200}? (?:-u|--user)[ =][\"']?[\w.@-]{1,100}:)([^\s\"'<>]{1,200})")

# What lets whoever has the address in: signatures of cloud stores, and a token instead of a user.
_SIGNED = re.compile(
    r"([?&;](?:X-(?:Amz|Goog)-(?:Signature|Security-Token)|sig|signature)=)([^\s&;\"'<>]{16,4096})",
    re.IGNORECASE,
)
_TOKEN_AS_USER = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]{1,20}://)([\w-]{20,500})(?=@)")
_COOKIE = re.compile(r"(\b(?:set-)?cookie:[ \t]?)([\w.-]{1,100}=[^\n\"'<>]{8,4096})", re.IGNORECASE)
_REGISTRY_LOGIN = re.compile(r"(\\?\"auth\\?\"[ \t]*:[ \t]*\\?\")([A-Za-z0-9+/]{16,4096}={0,2})(?=\\?\")")

_QUOTE = r"\\{0,2}[\"']"
_VALUE = (
    rf"(?:{_QUOTE}(?P<quoted>[^\"'\\\n]{{1,500}}+)(?=\\{{0,2}}[\"'])"
    r"|`(?P<code>[^`\s]{1,500}+)`"
    r"|(?![=:]|[0-9a-f]{4}>)(?P<bare>[^\s\"'`,;|&<>(){}\[\]\\]{1,500}+)(?![(\[]))"
)
_SEPARATOR = rf"(?:{_QUOTE}|\*\*|`)?[ \t]{{0,8}}(?::=|=>|[:=])(?:\*\*)?[ \t]{{0,8}}"
_PASSWORD = re.compile(
    rf"(?P<key>(?:pass(?:word|wd|phrase|code)|pwd|_pass){_SEPARATOR})(?P<value>{_VALUE})", re.IGNORECASE
)
_SECRET = re.compile(
    r"(?P<key>(?:secret|token|credentials?|(?:api|access|secret|private|account|auth|encryption|signing|shared)[_-]?key)"
    rf"{_SEPARATOR})(?P<value>{_VALUE})",
    re.IGNORECASE,
)
_BEARER = re.compile(
    r"(?P<key>\b(?:bearer|authorization: (?:basic|token)) )(?P<bare>[\w.~+/=-]{8,4096})", re.IGNORECASE
)
_COMMANDS = tuple(
    (hints, re.compile(pattern, re.IGNORECASE))
    for hints, pattern in (
        (("dent", "pass"), r"(?P<key>\b(?:identified by|password) )(?P<value>'(?P<bare>[^'\n]{1,200})')"),
        (("pass", "masterauth"), r"(?P<key>^[ \t]*(?:requirepass|masterauth) )(?P<bare>[^\s\"'<>]{1,200})"),
        (("-cl",), r"(?P<key>\bredis-cli\b[^\n|;]{0,200}? -a )(?P<bare>[^\s\"'<>]{1,200})"),
        (("pass",), r"(?P<key>\bsshpass -p ?)(?P<bare>[^\s\"'<>]{1,200})"),
        (("mysql",), r"(?P<key>\bmysql\w{0,10}\b[^\n|;]{0,200}? -p)(?P<bare>[^\s\"'<>]{1,200})"),
    )
)

# Words of which a text with anything to replace holds one.
_ANY = ("PRIVATE KEY", "://", "auth", "curl", *(hint for _, hints, _ in _TOKENS for hint in hints))
_ANY_FOLDED = (
    *("cook", "pass", "pwd", "secret", "token", "cred", "key", "bearer", "author"),
    *(hint for hints, _ in _COMMANDS for hint in hints),
)

_PLACEHOLDER = re.compile(
    r"[<{\[].*|\$\{?[A-Za-z_]\w*\}?|\$\(.*|\$|%[A-Za-z_]*%?|[*x.…_#?-]+|\.\.\..*|[~.]?\.?/[\w./-]*"
    r"|(?:.*[-_ ])?(?:your|redacted|placeholder|example|changeme|change[-_]me)(?:[-_ ].*)?"
    r"|my[-_ ]?(?:pass(?:word)?|pw|secret|token|key)"
    r"|(?:null|none|nil|true|false|yes|no|empty|required|optional|hidden|masked|string|str|env|file|vault|prompt)",
    re.IGNORECASE,
)
_CAPITALS = re.compile(r"(?=[A-Z_-]*(?:PASS|SECRET|TOKEN|KEY|PWD))[A-Z_-]+")
_ATTRIBUTE = re.compile(
    r"(?:[A-Za-z_]+\.)*(?:self|env|config|settings|params|args|values|secrets?|vault)\.[\w.]+"
    r"|(?:[A-Za-z_]+\.)+\w*(?:pass|password|pwd|secret|token|key)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Za-z]{2,}(?:[-_./:][A-Za-z]+|[-_./:]\d{1,3}|[-_./:]v\d{1,3})*")


def redact(text: str) -> str:
    """`text` with its secrets replaced. Time is linear in the text.

    Every pattern has a few words of which a match must hold one: looking for those costs a tenth of the pattern, and
    mostly there are none. The words of patterns without case have no `i`, which has relatives that fold otherwise.
    """
    folded = text.casefold()
    if not _has(text, _ANY) and not _has(folded, _ANY_FOLDED):
        return text
    text = _without_private_keys(text)
    for kind, hints, pattern in _TOKENS:
        if _has(text, hints):
            text = pattern.sub(lambda match, kind=kind: _mark(kind, match[0]), text)  # type: ignore[misc]
    if "://" in text:
        text = _USERINFO.sub(_replace_password, text)
        text = _SIGNED.sub(lambda match: match[1] + _mark("signature", match[2]), text)
        text = _TOKEN_AS_USER.sub(_replace_random("token"), text)
    if "cook" in folded:
        text = _COOKIE.sub(lambda match: match[1] + _mark("cookie", match[2]), text)
    if "auth" in text:
        text = _REGISTRY_LOGIN.sub(_replace_random("password"), text)
    if "curl" in text:
        text = _USER_OPTION.sub(_replace_password, text)
    if _has(folded, ("pass", "pwd")):
        text = _PASSWORD.sub(_assigned("password", _is_password), text)
    if _has(folded, ("secret", "token", "cred", "key")):
        text = _SECRET.sub(_assigned("secret", _is_random), text)
    if _has(folded, ("bearer", "author")):
        text = _BEARER.sub(_assigned("token", _is_random), text)
    for hints, pattern in _COMMANDS:
        if _has(folded, hints):
            text = pattern.sub(_assigned("password", _is_password), text)
    return text


def _has(text: str, hints: tuple[str, ...]) -> bool:
    for hint in hints:  # noqa: SIM110 - a generator costs more than what it would look for
        if hint in text:
            return True
    return False


def _mark(kind: str, secret: str) -> str:
    return f"<redacted:{kind}:{hashlib.sha256(secret.encode(errors='replace')).hexdigest()[:4]}>"


def _without_private_keys(text: str) -> str:
    """A key without its end was cut off: then whatever still looks like the key goes."""
    if "PRIVATE KEY" not in text:
        return text
    marks = sorted([*_PEM_BEGIN.finditer(text), *_PEM_END.finditer(text)], key=re.Match.start)
    kept: list[str] = []
    at = 0
    for begin, following in zip(marks, [*marks[1:], None], strict=True):
        material = _KEY_MATERIAL.search(text, begin.end(), following.start() if following else len(text))
        if begin.re is not _PEM_BEGIN or not material:
            continue
        stop = following.end() if following and following.re is _PEM_END else material.end()
        kept += text[at : begin.start()], _mark("private-key", text[begin.start() : stop])
        at = stop
    return "".join(kept) + text[at:]


def _replace_password(match: re.Match[str]) -> str:
    return match[1] + _mark("password", match[2]) if _is_password(match[2]) else match[0]


def _replace_random(kind: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match[1] + _mark(kind, match[2]) if _is_random(match[2]) else match[0]


def _assigned(kind: str, is_secret: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    """Replaces the value of `key = value` where it is a secret, whatever quotes are around it."""

    def replace(match: re.Match[str]) -> str:
        groups = match.groupdict()
        secret = groups.get("quoted") or groups.get("code") or groups["bare"]
        if not is_secret(secret) or (groups.get("bare") and _is_prose(match)):
            return match[0]
        key = match["key"]
        return key + match[0][len(key) :].replace(secret, _mark(kind, secret), 1)

    return replace


def _is_prose(match: re.Match[str]) -> bool:
    """`password: ask the owner` is a sentence: a plain word behind a colon, and more words behind it."""
    if not match["key"].rstrip().endswith(":") or not match["key"].endswith((" ", "\t")):
        return False
    line = match.string[match.end() : match.end() + 200].split("\n", 1)[0]
    return bool(line.strip(" \t\"',;.")) and bool(_WORDS.fullmatch(match["bare"].rstrip(".")))


def _is_placeholder(value: str) -> bool:
    value = value.strip()
    return bool(_PLACEHOLDER.fullmatch(value) or _CAPITALS.fullmatch(value) or _ATTRIBUTE.fullmatch(value))


def _is_password(value: str) -> bool:
    return not _is_placeholder(value)


def _is_random(value: str) -> bool:
    """Whether `value` behind a key-like word is a secret rather than a name or a sentence."""
    if len(value) < 8 or " " in value.strip() or _is_placeholder(value) or _WORDS.fullmatch(value):
        return False
    return len(value) >= 20 or (any(map(str.isdigit, value)) and any(map(str.isalpha, value)))
