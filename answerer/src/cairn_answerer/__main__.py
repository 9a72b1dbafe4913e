"""`python -m cairn_answerer`."""

from __future__ import annotations

from cairn_answerer.app import PROCESS, create_app
from cairn_answerer.settings import AnswererSettings
from cairn_shared import logging
from cairn_shared.settings import load
from cairn_shared.web.service import serve


def main() -> None:
    """Settings, logging, serve."""
    settings = load(AnswererSettings)
    logging.configure(PROCESS, settings.log_level)
    serve(create_app(settings), settings)


if __name__ == "__main__":
    main()
