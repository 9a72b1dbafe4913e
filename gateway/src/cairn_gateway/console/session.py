"""Who is logged in: the API key itself, encrypted in a cookie that no script can read.

Nothing is stored: a key that is revoked ends its sessions with the next call.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken

COOKIE = "cairn_session"


@dataclass(frozen=True)
class Sessions:
    """Seals keys for `seconds`. Without a secret of its own a process cannot read what was sealed before it began."""

    fernet: Fernet
    seconds: int

    @classmethod
    def of(cls, secret: str | None, seconds: int) -> Sessions:
        """With a secret that the replicas of the gateway share, or one for this process."""
        key = base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()) if secret else Fernet.generate_key()
        return cls(Fernet(key), seconds)

    def seal(self, key: str) -> str:
        """The value of the cookie."""
        return self.fernet.encrypt(key.encode()).decode()

    def open(self, cookie: str | None) -> str | None:
        """The key in it; None where it is absent, forged or too old."""
        if not cookie:
            return None
        try:
            return self.fernet.decrypt(cookie.encode(errors="replace"), ttl=self.seconds).decode()
        except InvalidToken:
            return None
