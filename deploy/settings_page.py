"""Write docs/settings.md from the settings classes, or with --check say whether it is current."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "settings.md"
PROCESSES = {
    "gateway": "cairn_gateway.settings:GatewaySettings",
    "ingest-consumer": "cairn_ingest_consumer.settings:IngestSettings",
    "embedder": "cairn_embedder.settings:EmbedderSettings",
    "retriever": "cairn_retriever.settings:RetrieverSettings",
    "answerer": "cairn_answerer.settings:AnswererSettings",
    "one-machine stack": "cairn_local.settings:StackSettings",
}
HEAD = """# Settings

Every setting of every process, from the classes that read them (`deploy/settings_page.py` writes this page).
Environment variables, read once at start; a missing or wrong one stops the process with its name.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(f"\n## {name}\n\n{_table(_load(where))}" for name, where in PROCESSES.items())


def _load(where: str) -> type[BaseSettings]:
    module, name = where.split(":")
    settings: type[BaseSettings] = getattr(importlib.import_module(module), name)
    return settings


def _table(settings: type[BaseSettings]) -> str:
    rows = [
        f"| `{name.upper()}` | {_default(field)} | {_text(field)} |\n" for name, field in settings.model_fields.items()
    ]
    return "| variable | default | what |\n|---|---|---|\n" + "".join(rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None or default == "":
        return "unset"
    return "a secret" if isinstance(default, SecretStr) else f"`{default}`"


def _text(field: FieldInfo) -> str:
    return (field.description or "").replace("|", "\\|").replace("\n", " ")


def main() -> int:
    """Exit code 0 when the page is written or current, 1 when it is not."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
        return 0
    if PAGE.read_text() == page():
        return 0
    print("docs/settings.md is not current: run `make format`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
