"""Programs of Debian's packages for tests: those on the PATH, or else installed with apt where we are root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_POLICY = Path("/usr/sbin/policy-rc.d")
_QUIET = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}


def debian_program(package: str) -> str:
    """The path of the program that `package` is named after; the test is skipped, saying why, where it is not to be had.

    Unpacking would not do: Debian's Alertmanager reads its template under /usr/share.
    """
    if found := shutil.which(package):
        return found
    if shutil.which("apt-get") is None:
        pytest.skip(f"{package} is not on the PATH, and there is no apt-get to install it with")
    if os.geteuid() != 0:
        pytest.skip(f"{package} is not on the PATH: apt-get install {package}")
    if not (_install(package) or (_apt("update") and _install(package))):
        pytest.skip(f"{package} is not on the PATH, and apt-get cannot install it (is there no mirror to be reached?)")
    found = shutil.which(package)
    assert found, f"apt-get installed {package} and it is not on the PATH"
    return found


def _install(package: str) -> bool:
    """Install without starting the service that comes with it."""
    ours = not _POLICY.exists()
    if ours:
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
    try:
        return _apt("install", "--yes", "--no-install-recommends", package)
    finally:
        if ours:
            _POLICY.unlink(missing_ok=True)


def _apt(*arguments: str) -> bool:
    """Another test process may be at it: wait for its lock."""
    command = ["apt-get", "-qq", "-oDPkg::Lock::Timeout=60", *arguments]
    return subprocess.run(command, env=_QUIET, capture_output=True, check=False, timeout=100).returncode == 0
