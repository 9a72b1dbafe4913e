"""Where Cairn is and with which key: environment, then `.cairn/env` of the one-machine stack, then the default.

`.cairn` is looked for in this folder and its parents; CAIRN_HOME names it outright, for `cairn-local` too.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from cairn_gateway.cli.exits import UsageError

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "CAIRN_URL"
KEY_VARIABLE = "CAIRN_API_KEY"
HOME_VARIABLE = "CAIRN_HOME"
HOME = Path(".cairn")
ENV_FILE = "env"
STATE_FILE = "state.json"


@dataclass(frozen=True)
class Target:
    """The address of a Cairn, and the key for it. `warnings` are for the user to read.

    `stored` is all that the one-machine stack of this address wrote down, secrets of webhooks among it.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    stored: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    home: Path | None = field(default=None, repr=False)
    """The folder of the one-machine stack that wrote `stored`."""

    def stack_runs(self) -> bool:
        """Whether that stack lives: its supervisor starts again what ended, so waiting for it is worth while."""
        if self.home is None:
            return False
        try:
            state = json.loads((self.home / STATE_FILE).read_bytes())
            if state["phase"] not in {"starting", "running"}:
                return False
            os.kill(int(state["pid"]), 0)  # signal 0 asks only whether there is such a process
        except PermissionError:
            return True
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    @property
    def local(self) -> bool:
        """Whether it runs on this machine, where `make run` can start it."""
        host = urlsplit(self.url).hostname or ""
        return host in {"localhost", "::1"} or host.startswith("127.")


def find_target(environ: Mapping[str, str], folder: Path) -> Target:
    """The Cairn that a command started in `folder` talks to.

    The key in `.cairn/env` belongs to the address beside it: it is never sent to another `CAIRN_URL`.

    Raises:
        UsageError: an address or key cannot be one.
    """
    warnings: list[str] = []
    home, stored = _stored(_candidates(environ, folder), warnings)
    stored_url = _checked_url(stored.get(URL_VARIABLE) or DEFAULT_URL)
    url = _checked_url(environ.get(URL_VARIABLE) or stored_url)
    if url != stored_url:
        home, stored = None, {}
    key = environ.get(KEY_VARIABLE) or stored.get(KEY_VARIABLE)
    return Target(url, _checked_key(key) if key else None, stored, tuple(warnings), home)


def parse_env(text: str) -> dict[str, str]:
    """`KEY=VALUE` lines; comments, `export` and one pair of surrounding quotes are allowed."""
    values: dict[str, str] = {}
    for raw in text.splitlines():
        line = raw.strip().removeprefix("export ")
        name, equals, value = line.partition("=")
        if not equals or line.startswith("#"):
            continue
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        values[name.strip()] = value
    return values


def _stored(candidates: Iterable[Path], warnings: list[str]) -> tuple[Path | None, dict[str, str]]:
    for path in candidates:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as exc:
            warnings.append(f"{path} cannot be read: {exc.strerror}")
            return None, {}
        if reason := _distrust(found):
            warnings.append(f"{path} is not used: {reason}")
            continue
        try:
            return path.parent, parse_env(path.read_text(encoding="utf-8"))
        except OSError as exc:
            warnings.append(f"{path} cannot be read: {exc.strerror}")
        except UnicodeDecodeError:
            warnings.append(f"{path} is not UTF-8 text")
        return None, {}
    return None, {}


def _candidates(environ: Mapping[str, str], folder: Path) -> Iterator[Path]:
    if chosen := environ.get(HOME_VARIABLE):
        yield folder / chosen / ENV_FILE
        return
    for parent in (folder, *folder.parents):
        yield parent / HOME / ENV_FILE


def _distrust(found: os.stat_result) -> str | None:
    """Why a file must not decide where questions and keys are sent: somebody else could have written it."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid not in {os.geteuid(), 0}:
        return "it belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write it; `chmod 600` it"
    return None


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(f"{URL_VARIABLE} is not an address: {url!r}", hint=f"it looks like {DEFAULT_URL}")
    return url.strip().rstrip("/")


def _checked_key(key: str) -> str:
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{KEY_VARIABLE} holds characters that no key has")
    return key
