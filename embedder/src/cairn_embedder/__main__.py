"""`python -m cairn_embedder`: settings, logs, serve."""

from __future__ import annotations

from cairn_embedder.app import create_app
from cairn_embedder.settings import EmbedderSettings
from cairn_shared import logging
from cairn_shared.settings import load
from cairn_shared.web.service import serve


def main() -> None:
    """Run until SIGTERM."""
    settings = load(EmbedderSettings)
    logging.configure("embedder", settings.log_level)
    serve(create_app(settings), settings)


if __name__ == "__main__":
    main()
