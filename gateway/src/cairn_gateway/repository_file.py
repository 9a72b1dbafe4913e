"""The file of RUNBOOK_REPOS: declarations for deployments, in YAML.

repos:
  - name: sre
    url: https://github.com/acme/runbooks
    branch: main
    include: ["docs/**/*.md"]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from cairn_shared.errors import InvalidInput
from cairn_shared.events import first_error
from cairn_shared.repositories.model import Declaration


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    repos: list[Declaration]


def read_file(path: str) -> list[Declaration]:
    """The declarations of the YAML file `path`: `repos: [{name, url, branch, include, exclude, provider}]`.

    Raises:
        InvalidInput: it cannot be read, or something in it is wrong.
    """
    try:
        content: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as exc:
        raise InvalidInput(f"RUNBOOK_REPOS: {exc.strerror or 'it cannot be read'}", field="RUNBOOK_REPOS") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise InvalidInput("RUNBOOK_REPOS: the file is not YAML", field="RUNBOOK_REPOS") from exc
    try:
        declarations = _File.model_validate(content or {"repos": []}).repos
    except ValidationError as exc:
        raise InvalidInput(f"RUNBOOK_REPOS: {first_error(exc)}", field="RUNBOOK_REPOS") from exc
    names = [one.name for one in declarations]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput(f"RUNBOOK_REPOS: {', '.join(repeated)} is declared twice", field="RUNBOOK_REPOS")
    return declarations
