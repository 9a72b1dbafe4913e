"""`python -m cairn_gateway`: read the settings, serve until told to stop."""

from __future__ import annotations

from cairn_gateway.app import create_app
from cairn_gateway.settings import GatewaySettings
from cairn_shared.logging import configure
from cairn_shared.settings import load
from cairn_shared.web.service import serve


def main() -> None:
    """The process."""
    settings = load(GatewaySettings)
    configure("gateway", settings.log_level)
    serve(create_app(settings), settings)


if __name__ == "__main__":
    main()
