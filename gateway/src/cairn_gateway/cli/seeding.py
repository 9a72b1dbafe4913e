"""The demo data of a checkout: where it is, and its users and executions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cairn_gateway.cli.client import Cairn, as_object
from cairn_gateway.cli.exits import Unreachable, UsageError
from cairn_gateway.cli.importing import PATIENCE

Json = dict[str, Any]


@dataclass(frozen=True)
class Records:
    """What is not Markdown, in the order in which it is put: executions name users."""

    users: tuple[Json, ...]
    executions: tuple[Json, ...]


def find_data(given: Path | None, folder: Path) -> Path:
    """The folder that holds `runbooks/`: the given one, or `data/` of `folder` or a parent.

    Raises:
        UsageError: there is none.
    """
    if given is not None:
        if not (given / "runbooks").is_dir():
            raise UsageError(f"{given} holds no folder `runbooks`")
        return given
    for parent in (folder, *folder.parents):
        if (parent / "data" / "runbooks").is_dir():
            return parent / "data"
    raise UsageError("there is no data/runbooks in this folder or above", hint="give it with --data DIR")


def read_records(data: Path) -> Records:
    """`users.json` and `executions.json`; a missing file counts as empty.

    Raises:
        UsageError: a file is not a JSON list of objects with an id.
    """
    return Records(_read(data / "users.json"), _read(data / "executions.json"))


def put_records(cairn: Cairn, records: Records, *, on_wait: Callable[[Unreachable], None]) -> dict[str, dict[str, int]]:
    """Put each record under its id; by kind, how many were created, changed or unchanged.

    Raises:
        Rejected: Cairn does not take one.
    """
    counts: dict[str, dict[str, int]] = {}
    for kind, items in (("users", records.users), ("executions", records.executions)):
        counted: Counter[str] = Counter(created=0, changed=0, unchanged=0)
        for item in items:
            body = {name: value for name, value in item.items() if name != "id"}
            response = cairn.request("PUT", f"/{kind}/{item['id']}", body=body, patience=PATIENCE, on_wait=on_wait)
            counted[str(as_object(response)["status"])] += 1
        counts[kind] = dict(counted)
    return counts


def _read(path: Path) -> tuple[Json, ...]:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path} cannot be read: {exc}") from exc
    if not isinstance(value, list) or not all(isinstance(item, dict) and item.get("id") for item in value):
        raise UsageError(f"{path} must be a JSON list of objects with an id")
    return tuple(value)
