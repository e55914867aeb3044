"""A PostgreSQL cluster of our own: a temporary folder, a free loopback port, a database per server."""

import os
import pwd
import shutil
import tempfile
import uuid
from pathlib import Path

import psycopg

from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process, ProcessFailed, run

_OWNER = "crush"
# The tests kill our processes, never this one, so it need not wait for a disk.
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "warning",
}


def postgres_binaries() -> Path | None:
    """The folder with initdb and postgres, the newest version first. Debian keeps it off the PATH."""
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    for pattern in ("/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql*/bin"):
        found = Path("/").glob(pattern.lstrip("/"))
        candidates += sorted(found, key=_version, reverse=True)
    return next(
        (c for c in candidates if (c / "initdb").exists() and (c / "postgres").exists()), None
    )


def _version(folder: Path) -> tuple[int, str]:
    name = folder.parent.name.rpartition("@")[2]
    return (int(name) if name.isdigit() else 0, folder.parent.name)


class Postgres:
    """One cluster for a test session. `create_database` makes each server one of its own."""

    def __init__(self, log_folder: Path) -> None:
        binaries = postgres_binaries()
        if binaries is None:
            raise ProcessFailed("no PostgreSQL binaries: install the package postgresql")
        self._binaries = binaries
        # Not under pytest's folder: that is 0700 of this user, and the cluster may be another's.
        self._folder = Path(tempfile.mkdtemp(prefix="crush-pg-"))
        self._user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
        self._port = free_port()
        self._env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self._folder)}
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
        options = {**_SETTINGS, "unix_socket_directories": str(self._folder), "port": self._port}
        self._process = Process(
            "postgres",
            [
                str(binaries / "postgres"),
                "-D",
                str(self._folder / "data"),
                *(part for name, value in options.items() for part in ("-c", f"{name}={value}")),
            ],
            env=self._env,
            cwd=self._folder,
            log=log_folder / "postgres.log",
            user=self._user,
        )

    def start(self) -> None:
        run(
            [
                str(self._binaries / "initdb"),
                *("-D", str(self._folder / "data"), "-U", _OWNER, "--auth=trust"),
                *("--encoding=UTF8", "--locale=C", "--no-sync"),
            ],
            env=self._env,
            cwd=self._folder,
            user=self._user,
        )
        self._process.start()
        self._process.wait_for_line(r".*ready to accept connections")

    def create_database(self, template: str | None = None) -> str:
        """A new database, empty or a copy of `template` (a name); its name."""
        name = f"crush_{uuid.uuid4().hex[:12]}"
        copied = f' TEMPLATE "{template}"' if template else ""
        self._execute(f'CREATE DATABASE "{name}"{copied}')
        return name

    def drop_database(self, name: str) -> None:
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def url(self, name: str) -> str:
        return f"postgres://{_OWNER}@127.0.0.1:{self._port}/{name}"

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def stop(self) -> None:
        # SIGKILL: the folder goes with it, so there is nothing to keep consistent.
        self._process.kill9()
        shutil.rmtree(self._folder, ignore_errors=True)
