"""`python -m cairn_embedder`: settings, logs, serve."""

from __future__ import annotations

import signal
import sys

from cairn_embedder.app import create_app
from cairn_embedder.settings import EmbedderSettings
from cairn_shared import logging
from cairn_shared.settings import load
from cairn_shared.web.service import serve


def main() -> None:
    """Run until SIGTERM; exit code 2 and one line when a setting is wrong, also where only the model shows it."""
    settings = load(EmbedderSettings)
    logging.configure("embedder", settings.log_level)
    wrong: list[str] = []

    def refuse(problem: str) -> None:
        wrong.append(problem)
        signal.raise_signal(signal.SIGINT)  # the server ends as if asked to, and comes back here

    serve(create_app(settings, refuse=refuse), settings)
    if wrong:
        print(f"setting {wrong[0]}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
