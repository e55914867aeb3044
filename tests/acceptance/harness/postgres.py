"""A PostgreSQL cluster of our own: a temporary folder, a free loopback port, a database per server."""

import os
import pwd
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg

from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process, ProcessFailed, run

_OWNER = "crush"
# The tests kill our processes, seldom this one, so it need not wait for a disk.
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
# Commits then survive a crash of PostgreSQL, though not one of the host.
SURVIVES_CRASHES = {"synchronous_commit": "on"}
_READY = r".*ready to accept connections"


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

    def __init__(self, log_folder: Path, settings: Mapping[str, str] | None = None) -> None:
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
        places = {"unix_socket_directories": str(self._folder), "port": self._port}
        options = {**_SETTINGS, **(settings or {}), **places}
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
        self.start_again()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start_again(self) -> None:
        self._process.start()
        self._process.wait_for_line(_READY)

    def end(self, number: signal.Signals) -> None:
        """SIGINT ends it in an orderly way, SIGQUIT as a crash does; it can be started again."""
        self._process.send(number)
        self._process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """None of its processes runs; connections stay open, and the kernel accepts new ones."""
        postmaster = psutil.Process(self._process.pid)
        postmaster.suspend()  # first: it starts no further ones then
        frozen = [postmaster, *postmaster.children(recursive=True)]
        for process in frozen[1:]:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        try:
            yield
        finally:
            for process in frozen:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

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
