"""Secrets go, what looks like them stays."""

from __future__ import annotations

import re

import pytest
from growth import assert_linear
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn_shared.redaction import redact

AWS = "AKIA" + "IOSFODNN7ABCDEFG"
GITHUB = "ghp_" + "a1B2" * 9
GITLAB = "glpat-" + "abcdefghij0123456789"
SLACK = "xoxb-" + "123456789012-abcdefABCDEF"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + "abcDEF123_-"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234567890abcdef\nabcd==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret", "kind"),
    [
        (f"export AWS_ACCESS_KEY_ID={AWS}", AWS, "aws-key"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX", "secret"),
        ("key AIza" + "SyA1" * 8 + "abc", "AIza" + "SyA1" * 8 + "abc", "google-key"),
        (f"git clone https://{GITHUB}@github.com/a/b", GITHUB, "github-token"),
        (f"PRIVATE-TOKEN: {GITLAB}", GITLAB, "gitlab-token"),
        (f"SLACK={SLACK}", SLACK, "slack-token"),
        ("https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnop", "abcdefghijklmnop", "slack-webhook"),
        (f"cookie {JWT};", JWT, "jwt"),
        (f"twilio SK{'0123abcd' * 4}", f"SK{'0123abcd' * 4}", "api-key"),
        (f"NRAK-{'A1B2C3D4E' * 3}", f"NRAK-{'A1B2C3D4E' * 3}", "api-key"),
        (f"lin_api_{'aB3d' * 10} and shpat_{'0a1b' * 8}", f"lin_api_{'aB3d' * 10}", "api-key"),
        (f"shpat_{'0a1b' * 8}", f"shpat_{'0a1b' * 8}", "api-key"),
        (f"bot 123456789:AA{'aB3-' * 8}d", f"123456789:AA{'aB3-' * 8}d", "bot-token"),
        (f"Set-Cookie: sid={'aB3d' * 6}; Path=/", f"sid={'aB3d' * 6}; Path=/", "cookie"),
        (f"https://b.example/k?X-Amz-Signature={'0a1b' * 16}&x=1", "0a1b" * 16, "signature"),
        (f"https://x.example/c?sv=2020&sig={'aB3d' * 8}%3D", f"{'aB3d' * 8}%3D", "signature"),
        (f"https://{'0a1b' * 8}@o1.sentry.example/1", "0a1b" * 8, "token"),
        ('{"auths": {"r": {"auth": "dXNlcjpwYXNzd29yZDEyMzQ1Ng=="}}}', "dXNlcjpwYXNzd29yZDEyMzQ1Ng==", "password"),
        (PEM, "MIIEowIBAAKCAQEA1234567890abcdef", "private-key"),
        (PEM.replace("\n", "\\n"), "MIIEowIBAAKCAQEA1234567890abcdef", "private-key"),
        (PEM[:70], "MIIEowIBAAKCAQEA1234567890abcdef", "private-key"),
        ("postgres://app:hunter2@db:5432/x", "hunter2", "password"),
        ("redis://:p4ss@cache", "p4ss", "password"),
        ("curl -u admin:hunter2 https://x", "hunter2", "password"),
        ("PGPASSWORD=hunter2 psql", "hunter2", "password"),
        ("password: hunter", "hunter", "password"),
        ("The password is set by password: `hunter2`.", "hunter2", "password"),
        ('{"password": "hunter2"}', "hunter2", "password"),
        ('{\\"password\\":\\"hunter2\\"}', "hunter2", "password"),
        ("--password='with a space'", "with a space", "password"),
        ("**Password:** hunter2", "hunter2", "password"),
        ("mysql -u root -phunter2 db", "hunter2", "password"),
        ("ALTER USER a WITH PASSWORD 'hunter2';", "hunter2", "password"),
        ("redis-cli -a hunter2 ping", "hunter2", "password"),
        ("token: 0a1b2c3d4e5f", "0a1b2c3d4e5f", "secret"),
        ("--from-literal=api_key=0a1b2c3d4e5f", "0a1b2c3d4e5f", "secret"),
        ("Authorization: Bearer 0a1b2c3d4e5f", "0a1b2c3d4e5f", "token"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==", "dXNlcjpwYXNzd29yZDEyMw==", "token"),
    ],
)
def test_a_secret_is_replaced_by_a_stable_mark(text: str, secret: str, kind: str) -> None:
    redacted = redact(text)
    assert secret not in redacted
    assert re.search(rf"<redacted:{kind}:[0-9a-f]{{4}}>", redacted)
    assert redact(text) == redacted
    assert redact(redacted) == redacted


def test_the_rest_of_the_text_stays() -> None:
    assert re.fullmatch(
        r"before <redacted:private-key:\w{4}>\nafter, psql postgres://app:<redacted:password:\w{4}>@db/x",
        redact(f"before {PEM}\nafter, psql postgres://app:hunter2@db/x"),
    )


def test_the_same_secret_has_the_same_mark_and_another_another() -> None:
    first, again, other = redact("password=hunter2 password=hunter2 password=hunter3").split()
    assert first == again != other


@pytest.mark.parametrize(
    "text",
    [
        "fixed by 9f8e7d6c5b4a39281706f5e4d3c2b1a098765432, short 9f8e7d6",
        "trace 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "https://git@github.com/a/b, https://build-agent-of-the-team@host/x and ?sig=none&signature=v4",
        "clear the cookie: it names the session; SKU SK-1234 and skopeo",
        "image@sha256:" + "ab12" * 16,
        "password=<password> user:<token>",
        "psql postgres://app:$PGPASSWORD@db and postgres://app:${PASS}@db and postgres://app:<password>@db",
        "password=$PGPASSWORD password=${PGPASSWORD} password=$(cat /run/pw)",
        "password: ******** token: xxxx",
        "password=YOUR_PASSWORD token=your-token-here password=changeme",
        "password: {{ .Values.password }}",
        "password: ask the owner of the database",
        "reset the password: open a ticket",
        "secret=alertmanager-main token: default-token",
        "bearer token authentication",
        "password_encryption = scram-sha-256, max_tokens: 220",
        "password = get_password(); token: Optional[str]; password=config.db.password",
        'if password == "": fail',
        "password_file=/run/secrets/pg",
        "password=/run/secrets/pg",
        "mysql -u root -p production",
        "look for -----BEGIN RSA PRIVATE KEY----- in the file",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0B\n-----END CERTIFICATE-----",
        "kubectl get secret -n prod --sort-by=.metadata.name",
        "https://github.com/org/repo and host:5432 and user@host",
        "the task-management-service-of-2024-is-here",
    ],
)
def test_identifiers_placeholders_and_prose_survive(text: str) -> None:
    assert redact(text) == text


PIECES = [
    "password",
    "token",
    "=",
    ": ",
    '"',
    "'",
    "`",
    " ",
    "\n",
    "hunter2",
    "a://b:",
    "@",
    GITHUB,
    PEM,
    "<",
    "$X",
    "-u ",
    "curl ",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_redacting_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@settings(max_examples=50)
@given(st.text())
def test_any_text_is_accepted(text: str) -> None:
    redact(text)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "1",
        "[",
        "password=",
        'password="',
        "password: a ",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ",
        "a://b:",
        "a://",
        "a://" + "b" * 30,
        "?sig=",
        "cookie: a=",
        '"auth": "',
        "1234567890:AA",
        "curl -u ",
        "sk-",
    ],
)
def test_hostile_input_takes_linear_time(unit: str) -> None:
    assert_linear(lambda size: redact(unit * (size // len(unit))), 100_000)
