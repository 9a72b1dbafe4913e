"""The token by which Cairn's processes know one another; where one is set nobody else is served."""

from __future__ import annotations

import hmac

from pydantic import SecretStr

from cairn_shared.errors import Unauthenticated
from cairn_shared.settings import ServiceSettings

_REFUSED = "this is for Cairn's own processes: send SERVICE_TOKEN as `Authorization: Bearer TOKEN`"


def bearer(token: SecretStr | None) -> dict[str, str]:
    """The headers that prove a caller to another process of Cairn."""
    return {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}


def proven(authorization: str, settings: ServiceSettings) -> bool:
    """Whether a caller with this `Authorization` is served. Every token is compared, in constant time."""
    if settings.service_token is None:
        return True
    tokens = (settings.service_token, settings.service_token_previous)
    wanted = [f"Bearer {token.get_secret_value()}".encode() for token in tokens if token is not None]
    sent = authorization.encode("utf-8", "surrogateescape")
    return any([hmac.compare_digest(sent, one) for one in wanted])  # noqa: C419 - all of them, whichever fits


def refusal() -> Unauthenticated:
    """What an unproven caller is told."""
    return Unauthenticated(_REFUSED)
