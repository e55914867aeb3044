"""What ``manage.py doctor`` looks at. Each look never raises and tells no secret.

Looks at this process's own settings and machine; of a running server only what
it answers. Changes nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseProblem
from django.db import connection

from agents.tools.search import ripgrep
from crushsite.checks import TAG
from crushsite.cli.findings import Finding, Level, fail, ok, warn
from crushsite.cli.folder_diagnosis import folder_findings
from crushsite.database import unapplied_migrations
from crushsite.program_name import command_line
from crushsite.server_client import ServerGone, ServerRefused, named_server
from workspaces.api.version import VERSION

OLDEST_PYTHON = (3, 11)
LOOK_SECONDS = 3.0


def diagnose(path: str, *, asks_model: bool) -> Iterator[Finding]:
    """``path`` is the folder whose configuration is looked at."""
    yield _python()
    yield from _data_folder(settings.DATA_DIR)
    yield from _key_files(settings.DATA_DIR)
    yield from _database()
    yield _shape()
    if settings.REDIS_URL:
        yield _redis(settings.REDIS_URL)
    yield from _settings()
    yield _server(settings.DATA_DIR)
    yield _ripgrep()
    yield from folder_findings(path, asks_model=asks_model)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return fail("Python", f"{version}; 3.11 or later is needed")
    return ok("Python", version)


def _data_folder(folder: Path) -> Iterator[Finding]:
    try:
        status = folder.stat()
    except FileNotFoundError:
        yield warn("data folder", f"{folder} does not exist yet; the first start makes it")
        return
    except OSError as error:
        yield fail("data folder", f"{folder}: {error.strerror}")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield fail("data folder", f"{folder} is not a folder; set CRUSH_DATA_DIR")
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield fail("data folder", f"{folder} cannot be written by this user")
    elif status.st_mode & 0o077:
        mode = f"{status.st_mode & 0o777:04o}"
        yield warn("data folder", f"{folder} is open to others ({mode}); chmod 700 {folder}")
    else:
        yield ok("data folder", str(folder))


def _key_files(folder: Path) -> Iterator[Finding]:
    for name, purpose in (("secret.key", "sealed environments"), ("django.key", "logins")):
        file = folder / name
        try:
            mode = file.stat().st_mode & 0o777
        except FileNotFoundError:
            yield ok(name, f"not made yet ({purpose})")
        except OSError as error:
            yield fail(name, f"{file}: {error.strerror}")
        else:
            if mode & 0o077:
                yield fail(name, f"others can read it (mode {mode:04o}); chmod 600 {file}")
            else:
                yield ok(name, f"mode {mode:04o} ({purpose})")


def _database() -> Iterator[Finding]:
    is_sqlite = connection.vendor == "sqlite"
    name = connection.settings_dict["NAME"]
    if is_sqlite and not Path(name).exists():
        yield warn("database", f"{name} does not exist yet; the first start makes it")
        return
    host = connection.settings_dict["HOST"]
    try:
        with connection.cursor() as cursor:
            if is_sqlite:
                cursor.execute("SELECT sqlite_version()")
            else:
                cursor.execute("SHOW server_version")
            version = cursor.fetchone()[0]
        yield ok("database", f"{connection.display_name} {version}, {host or 'local'} {name}")
        missing = unapplied_migrations()
        if missing:
            yield warn(
                "migrations", f"{missing} to apply; `serve` does it, or `{command_line('migrate')}`"
            )
        else:
            yield ok("migrations", "all applied")
        if is_sqlite:
            yield _journal()
    except (DatabaseProblem, ImproperlyConfigured) as error:
        yield fail("database", " ".join(str(error).split()))


def _journal() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        mode = cursor.fetchone()[0]
    if mode != "wal":
        return fail("journal", f"{mode}; it must be wal. Is the folder on a network file system?")
    return ok("journal", "write-ahead (wal)")


def _shape() -> Finding:
    if settings.REDIS_URL:
        return ok("shape", f"scaled: `{command_line('web')}` and `{command_line('runworker')}`")
    return ok("shape", f"embedded: `{command_line('serve')}`, everything in one process")


def _redis(url: str) -> Finding:
    import redis  # noqa: PLC0415  only the scaled shape needs it

    try:
        client = redis.Redis.from_url(
            url, socket_timeout=LOOK_SECONDS, socket_connect_timeout=LOOK_SECONDS
        )
        try:
            facts: Any = client.info("server")
        finally:
            client.close()
    except (redis.RedisError, ValueError) as error:
        # Its words may repeat the address, which may hold a password.
        return fail("Redis", f"REDIS_URL cannot be reached ({type(error).__name__})")
    return ok("Redis", str(facts.get("redis_version", "answers")))


def _settings() -> Iterator[Finding]:
    found = run_checks(tags=[TAG])
    for message in found:
        level = Level.FAIL if message.is_serious() else Level.WARN
        yield Finding(level, "settings", f"{message.msg} {message.hint or ''}".rstrip())
    if not found:
        yield ok("settings", "no problems")


def _server(folder: Path) -> Finding:
    server = named_server(folder)
    if server is None:
        if _is_locked(folder):
            return warn("server", "one is starting, or a `prompt --wait` is at work")
        return ok("server", f"none runs here; `{command_line('serve')}` starts one")
    try:
        facts = server.call("GET", "/v1/version", timeout=LOOK_SECONDS)
    except ServerGone:
        if _is_locked(folder):
            return fail("server", f"{server.url} (pid {server.pid}) runs and does not answer")
        return warn("server", f"{server.url} ended without cleaning up; the next start does it")
    except ServerRefused as refusal:
        return fail("server", f"{server.url} (pid {server.pid}): {refusal.sentence}")
    version = facts.get("version") if isinstance(facts, dict) else None
    if version != VERSION:
        return warn("server", f"{server.url} is version {version}, this is {VERSION}: restart it")
    return ok("server", f"{server.url} (pid {server.pid}), version {version}")


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / "server.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _ripgrep() -> Finding:
    binary = ripgrep.binary()
    if binary is None:
        return warn("ripgrep", "is not installed: searches in large folders take longer")
    try:
        done = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=LOOK_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return warn("ripgrep", f"{binary} does not run ({type(error).__name__})")
    return ok("ripgrep", done.stdout.splitlines()[0] if done.stdout else binary)
