from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import SecretStr

from cairn_gateway.sources import signatures
from cairn_gateway.sources.errors import NotConfigured
from cairn_gateway.sources.signatures import Secrets
from cairn_shared.errors import Unauthenticated

SECRET, OLD = "It's a Secret to Everybody", "the one before"
SECRETS = Secrets("GITHUB_WEBHOOK_SECRET", SecretStr(SECRET), SecretStr(OLD))
PAYLOADS = sorted((Path(__file__).parent / "payloads").glob("*/*.json"))

Check = Callable[[Mapping[str, str], bytes, Secrets], None]
SIGNED: dict[str, tuple[Check, str, str]] = {
    "github": (signatures.check_github, "x-hub-signature-256", "sha256="),
    "jira": (signatures.check_jira, "x-hub-signature", "sha256="),
    "pagerduty": (signatures.check_pagerduty, "x-pagerduty-signature", "v1="),
}
TOKENS: dict[str, tuple[Check, str, str]] = {
    "gitlab": (signatures.check_gitlab, "x-gitlab-token", ""),
    "alertmanager": (signatures.check_alertmanager, "authorization", "Bearer "),
}


def sign(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def test_the_example_of_githubs_documentation_is_accepted() -> None:
    header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    signatures.check_github({"x-hub-signature-256": header}, b"Hello, World!", SECRETS)


@pytest.mark.parametrize("path", [path for path in PAYLOADS if path.parent.name in SIGNED], ids=lambda path: path.stem)
def test_a_golden_payload_with_its_signature_passes_and_with_one_other_byte_does_not(path: Path) -> None:
    check, header, prefix = SIGNED[path.parent.name]
    body = path.read_bytes()
    headers = {header: prefix + sign(SECRET, body)}
    check(headers, body, SECRETS)
    middle = len(body) // 2
    altered = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
    with pytest.raises(Unauthenticated):
        check(headers, altered, SECRETS)


@pytest.mark.parametrize("source", SIGNED)
def test_the_previous_secret_still_signs_while_it_rotates(source: str) -> None:
    check, header, prefix = SIGNED[source]
    check({header: prefix + sign(OLD, b"{}")}, b"{}", SECRETS)
    with pytest.raises(Unauthenticated):
        check({header: prefix + sign(OLD, b"{}")}, b"{}", Secrets("X", SecretStr(SECRET)))


@pytest.mark.parametrize("source", SIGNED)
@pytest.mark.parametrize("given", ["", "sha256=", "v1=", "x", "sha1=abc", "sha256=é", "v1=" + "0" * 64, "," * 1000])
def test_a_missing_or_strange_signature_is_refused(source: str, given: str) -> None:
    check, header, _ = SIGNED[source]
    with pytest.raises(Unauthenticated):
        check({header: given} if given else {}, b"{}", SECRETS)


def test_one_good_signature_of_pagerduty_among_several_is_enough() -> None:
    header = f"v1={'0' * 64},v1={sign(SECRET, b'{}')}"
    signatures.check_pagerduty({"x-pagerduty-signature": header}, b"{}", SECRETS)


def test_the_sha1_header_of_github_is_not_enough() -> None:
    sha1 = hmac.new(SECRET.encode(), b"{}", hashlib.sha1).hexdigest()
    with pytest.raises(Unauthenticated):
        signatures.check_github({"x-hub-signature": f"sha1={sha1}"}, b"{}", SECRETS)


@pytest.mark.parametrize("source", TOKENS)
def test_tokens_are_compared_with_the_present_and_the_previous_one(source: str) -> None:
    check, header, prefix = TOKENS[source]
    check({header: prefix + SECRET}, b"{}", SECRETS)
    check({header: prefix + OLD}, b"{}", SECRETS)
    for wrong in (prefix, prefix + SECRET + "x", prefix + SECRET[:-1], "Basic " + SECRET, ""):
        with pytest.raises(Unauthenticated):
            check({header: wrong}, b"{}", SECRETS)


@pytest.mark.parametrize("source", [*SIGNED, *TOKENS])
@pytest.mark.parametrize("none", [Secrets("SOME_SECRET"), Secrets("SOME_SECRET", SecretStr(""), SecretStr(""))])
def test_without_a_secret_everything_is_refused_and_the_setting_is_named(source: str, none: Secrets) -> None:
    check, header, prefix = {**SIGNED, **TOKENS}[source]
    with pytest.raises(NotConfigured, match="SOME_SECRET"):
        check({header: prefix + sign("", b"{}")}, b"{}", none)
