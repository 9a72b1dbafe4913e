"""Proofs that a delivery comes from whom it says, over the raw body and in constant time.

No secret configured means refused: a forgotten setting must not open the door. The previous secret is accepted
as well, so that a secret can be changed without losing deliveries.

| source | scheme | documentation |
|---|---|---|
| GitHub, Gitea | HMAC-SHA256, `X-Hub-Signature-256: sha256=<hex>` | docs.github.com, "Validating webhook deliveries" |
| GitLab | `X-Gitlab-Token: <token>` | docs.gitlab.com, "Webhooks" |
| Jira | HMAC-SHA256, `X-Hub-Signature: sha256=<hex>` (WebSub §7.1) | developer.atlassian.com, "Webhooks" |
| Alertmanager | `Authorization: Bearer <token>` | prometheus.io, `http_config.authorization` |
| PagerDuty | HMAC-SHA256, `X-PagerDuty-Signature: v1=<hex>,v1=<hex>` | developer.pagerduty.com, "Signatures" |
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from cairn_gateway.sources.errors import NotConfigured
from cairn_shared.errors import Unauthenticated


@dataclass(frozen=True)
class Secrets:
    """The secret of one source and the one before it; `setting` is the name of the environment variable."""

    setting: str
    current: SecretStr | None = None
    previous: SecretStr | None = None

    def values(self) -> list[bytes]:
        """The secrets that count now.

        Raises:
            NotConfigured: none is set, or an empty one.
        """
        found = [secret.get_secret_value().encode() for secret in (self.current, self.previous) if secret]
        found = [value for value in found if value]
        if not found:
            raise NotConfigured(f"deliveries of this source are refused until {self.setting} is set")
        return found


Check = Callable[[Mapping[str, str], bytes, Secrets], None]
"""Raises `Unauthenticated` unless the headers prove the body."""


def check_github(headers: Mapping[str, str], body: bytes, secrets: Secrets) -> None:
    """Raise unless `X-Hub-Signature-256` signs `body`; the older SHA-1 header is not enough."""
    _check_digest(_prefixed(headers.get("x-hub-signature-256", ""), "sha256="), body, secrets)


def check_jira(headers: Mapping[str, str], body: bytes, secrets: Secrets) -> None:
    """Raise unless `X-Hub-Signature` signs `body` with SHA-256."""
    _check_digest(_prefixed(headers.get("x-hub-signature", ""), "sha256="), body, secrets)


def check_pagerduty(headers: Mapping[str, str], body: bytes, secrets: Secrets) -> None:
    """Raise unless one of the `v1` signatures signs `body`; while a secret rotates PagerDuty sends several."""
    _check_digest(_prefixed(headers.get("x-pagerduty-signature", ""), "v1="), body, secrets)


def check_gitlab(headers: Mapping[str, str], _body: bytes, secrets: Secrets) -> None:
    """Raise unless `X-Gitlab-Token` is the token."""
    _check_token(headers.get("x-gitlab-token", ""), secrets)


def check_alertmanager(headers: Mapping[str, str], _body: bytes, secrets: Secrets) -> None:
    """Raise unless the bearer token is the token."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    _check_token(token.strip() if scheme.lower() == "bearer" else "", secrets)


def digest(secret: bytes, body: bytes) -> str:
    """HMAC-SHA256 of `body` in lower-case hex."""
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


def _prefixed(header: str, prefix: str) -> list[bytes]:
    parts = (part.strip() for part in header.split(","))
    return [part[len(prefix) :].lower().encode() for part in parts if part.startswith(prefix)]


def _check_digest(given: list[bytes], body: bytes, secrets: Secrets) -> None:
    expected = [digest(secret, body).encode() for secret in secrets.values()]
    # At most a handful are compared, so that a long header costs no time.
    if not _any_equal((one, other) for one in given[:8] for other in expected):
        raise Unauthenticated("the signature does not fit the body and the configured secret")


def _check_token(given: str, secrets: Secrets) -> None:
    if not _any_equal((given.encode(), expected) for expected in secrets.values()):
        raise Unauthenticated("the token is missing or not the configured one")


def _any_equal(pairs: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether any pair is equal; every pair is compared, so that time tells nothing about which."""
    equal = False
    for one, other in pairs:
        equal |= hmac.compare_digest(one, other)
    return equal
