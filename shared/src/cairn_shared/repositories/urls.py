"""One spelling for the many URLs of one repository."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

# git@host:owner/repo.git, the scp-like form of git-clone(1)
_SCP = re.compile(r"^(?:[\w.-]+@)?([\w.-]+):(?!//)(?!\d+/)([^\s]+)$")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}


def canonical(url: str) -> str:
    """`url` as `host[:port]/path`: no scheme, user, default port, `.git` or case of the host.

    `https://User@Example.org/ops/runbooks.git`, `git@example.org:ops/runbooks` and
    `ssh://git@example.org:22/ops/runbooks/` are all `example.org/ops/runbooks`. A `file://` URL keeps its scheme.
    """
    url = url.strip()
    if "://" not in url and (match := _SCP.match(url)):
        return _joined(match[1], match[2])
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url  # no address at all, so like no other
    if parts.scheme == "file":
        return f"file://{_path(parts.path)}"
    host = (parts.hostname or "").lower()
    if port and port != _DEFAULT_PORTS.get(parts.scheme):
        host = f"{host}:{port}"
    return _joined(host, parts.path)


def host_of(url: str | None) -> str:
    """The `host[:port]` of an address in lower case; empty where there is none."""
    try:
        return urlsplit(url or "").netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def _joined(host: str, path: str) -> str:
    # Forges compare owner and name without regard to case.
    return f"{host.lower()}{_path(path).lower()}"


def _path(path: str) -> str:
    return "/" + unquote(path).strip("/").removesuffix(".git")
