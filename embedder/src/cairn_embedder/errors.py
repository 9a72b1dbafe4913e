"""What is wrong with how this embedder was started."""

from __future__ import annotations


class WrongSetting(ValueError):
    """A setting that the model, once loaded, shows to be wrong. Waiting does not help: the process should end."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
