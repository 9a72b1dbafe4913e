"""`python -m cairn_retriever`: settings, logging, serve."""

from __future__ import annotations

from cairn_retriever.app import create_app
from cairn_retriever.settings import RetrieverSettings
from cairn_shared import logging
from cairn_shared.settings import load
from cairn_shared.web.service import serve


def main() -> None:
    """The process."""
    settings = load(RetrieverSettings)
    logging.configure("retriever", settings.log_level)
    serve(create_app(settings), settings)


if __name__ == "__main__":
    main()
