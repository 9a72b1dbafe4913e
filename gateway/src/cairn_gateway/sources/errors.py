"""Errors of this folder.

CairnError
├── NotConfigured      no secret is set for this source, so nothing can prove itself (503, fails closed)
└── InvalidInput
    └── Malformed      the body is not in the format it claims to be (400)
"""

from __future__ import annotations

from cairn_shared.errors import CairnError, InvalidInput


class NotConfigured(CairnError):
    """The operator has not set the secret of this source: every delivery is refused until then."""

    status = 503
    title = "Source not configured"


class Malformed(InvalidInput):
    """The body cannot even be read (bad JSON, bad gzip, bad protobuf); `field` is `body` or a header."""

    status = 400
    title = "Malformed request"
