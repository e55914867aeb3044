"""The checks of ``doctor``, each a line of its report. No check raises or reveals a secret.

They change nothing. They examine the settings and the machine of this process; of a running server
they use only its responses. Such a server examines the folder, because only it has its environment;
without a server, this process does.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseProblem
from django.db import connection

from agents.config.cache import FolderConfig, folder_config
from agents.config.providers.built_in import OFFLINE_ID
from agents.config.providers.kinds import BUILT_IN
from agents.config.trust.decision import CURE, TrustState
from agents.diagnosis import REQUEST_SECONDS, facts_of, unstored_folder
from agents.llm.providers import end_connections
from agents.tools.search import search_process
from crushsite.apps import TAG
from crushsite.monitoring.findings import Finding, Level, fail, ok, warn
from crushsite.monitoring.shared_checks import (
    exposure_findings,
    key_findings,
    redis_findings,
    shared_findings,
)
from crushsite.program_name import command_line
from crushsite.server_client import (
    RunningServer,
    ServerGone,
    ServerRefused,
    find_running_server,
    named_server,
)
from crushsite.storage import migration_state
from workspaces.api.version import VERSION

OLDEST_PYTHON = (3, 11)
PROBE_TIMEOUT_SECONDS = 3.0
PATH = "/api/diagnosis"
SERVER_SECONDS = REQUEST_SECONDS + 10
GOOD_SERVERS = {"connected", "ready", "starting", "unstarted", "stopped", "disabled"}


def diagnose(path: str, *, asks_model: bool) -> Iterator[Finding]:
    """Yields all findings. ``path`` is the folder whose configuration is checked."""
    yield _python()
    yield from _data_folder(settings.DATA_DIR)
    yield from _key_files(settings.DATA_DIR)
    yield from _database()
    yield _shape()
    if settings.REDIS_URL:
        yield from redis_findings(settings.REDIS_URL)
    yield from _settings()
    yield from exposure_findings()
    yield _server(settings.DATA_DIR)
    yield _ripgrep()
    yield from _folder(path, asks_model=asks_model)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return fail("Python", f"{version} is too old; install 3.11 or later")
    return ok("Python", version)


def _data_folder(folder: Path) -> Iterator[Finding]:
    try:
        status = folder.stat()
    except FileNotFoundError:
        yield warn("data folder", f"{folder} does not exist yet; the first start creates it")
        return
    except OSError as error:
        yield fail("data folder", f"{folder}: {error.strerror}")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield fail("data folder", f"{folder} is not a folder; set CRUSH_DATA_DIR")
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield fail(
            "data folder",
            f"this user cannot read and write {folder}; set CRUSH_DATA_DIR to another folder",
        )
    elif status.st_mode & 0o077:
        mode = f"{status.st_mode & 0o777:04o}"
        yield warn(
            "data folder", f"other users can open {folder} (mode {mode}); run `chmod 700 {folder}`"
        )
    else:
        yield ok("data folder", str(folder))


def _key_files(folder: Path) -> Iterator[Finding]:
    for name, purpose in (("secret.key", "encrypts environments"), ("django.key", "signs logins")):
        file = folder / name
        try:
            mode = file.stat().st_mode & 0o777
        except FileNotFoundError:
            yield ok(name, f"not created yet ({purpose})")
        except OSError as error:
            yield fail(name, f"{file}: {error.strerror}")
        else:
            if mode & 0o077:
                yield fail(
                    name, f"other users can read it (mode {mode:04o}); run `chmod 600 {file}`"
                )
            else:
                yield ok(name, f"mode {mode:04o} ({purpose})")


def _database() -> Iterator[Finding]:
    is_sqlite = connection.vendor == "sqlite"
    name = connection.settings_dict["NAME"]
    if is_sqlite and not Path(name).exists():
        yield warn("database", f"{name} does not exist yet; the first start creates it")
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
        state = migration_state()
        if state.newer:
            yield fail(
                "migrations",
                f"a newer version has applied {state.newer[-1]}: use that version",
            )
        elif state.missing:
            yield warn("migrations", f"{state.missing} not applied: {_cure()}")
        else:
            yield ok("migrations", "all applied")
            yield from key_findings() if is_sqlite else shared_findings()
        if is_sqlite:
            yield _journal()
    except (DatabaseProblem, ImproperlyConfigured) as error:
        yield fail("database", " ".join(str(error).split()))


def _cure() -> str:
    if settings.REDIS_URL:
        return f"run `{command_line('migrate')}` before `web` and `runworker`"
    return f"`serve` applies them, or `{command_line('migrate')}`"


def _journal() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        mode = cursor.fetchone()[0]
    if mode != "wal":
        return fail("journal", f"mode {mode} instead of wal; move the data folder to a local disk")
    return ok("journal", "write-ahead (wal)")


def _shape() -> Finding:
    if settings.REDIS_URL:
        return ok("shape", f"scaled: `{command_line('web')}` and `{command_line('runworker')}`")
    return ok("shape", f"embedded: `{command_line('serve')}`, everything in one process")


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
            return warn("server", "one is starting, or `prompt --wait` is running")
        return ok("server", f"none is running; `{command_line('serve')}` starts one")
    try:
        facts = server.call("GET", "/v1/version", timeout=PROBE_TIMEOUT_SECONDS)
    except ServerGone:
        if _is_locked(folder):
            return fail(
                "server",
                f"{server.url} (pid {server.pid}) is running but does not answer; restart it",
            )
        return warn(
            "server", f"{server.url} has ended and left its file behind; the next start replaces it"
        )
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
    binary = search_process.binary()
    if binary is None:
        return warn("ripgrep", "not installed; searches in large folders take longer")
    try:
        done = subprocess.run(
            [binary, "--version"],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return warn("ripgrep", f"{binary} does not run ({type(error).__name__})")
    return ok("ripgrep", done.stdout.splitlines()[0] if done.stdout else binary)


# -- about the folder


def _folder(path: str, *, asks_model: bool) -> Iterator[Finding]:
    if not Path(path).is_dir():
        yield fail("folder", f"{path} is not a folder")
        return
    server = find_running_server(settings.DATA_DIR)
    if server is None:
        yield from folder_findings(_examined_here(path, asks_model=asks_model))
        return
    try:
        facts = _from_server(server, path, asks_model=asks_model)
    except (ServerGone, ServerRefused) as error:
        yield fail("configuration", f"{server.url} cannot report on this folder: {error}")
    else:
        yield from folder_findings(facts)


def _from_server(server: RunningServer, path: str, *, asks_model: bool) -> dict[str, Any]:
    body = {"path": path, "asks_model": asks_model}
    facts: dict[str, Any] = server.call("POST", PATH, body, timeout=SERVER_SECONDS)
    return facts


def _examined_here(path: str, *, asks_model: bool) -> dict[str, Any]:
    try:
        folder = folder_config(path)
    except DatabaseProblem:
        folder = unstored_folder(path)  # no database yet, or another finding reports the error
    return asyncio.run(_facts_and_close(folder, asks_model=asks_model))


async def _facts_and_close(folder: FolderConfig, *, asks_model: bool) -> dict[str, Any]:
    try:
        return await facts_of(folder, asks_model=asks_model)
    finally:
        await end_connections()


def folder_findings(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """What a server, or this process, has found in a folder."""
    for problem in facts["problems"]:
        yield (warn if problem["is_warning"] else fail)("configuration", problem["text"])
    if not facts["problems"]:
        yield ok("configuration", f"no problems in {facts['path']}")
    yield from _trust(facts["trust"])
    for size in ("large", "small"):
        yield _model(f"{size} model", facts["models"][size])
    providers = [one for one in facts["providers"] if one["type"] not in BUILT_IN]
    if providers:
        yield ok("providers", ", ".join(sorted(_provider(one) for one in providers)))
    for section in ("mcp", "lsp"):
        for server in facts.get(section, ()):
            text = f"{server['state']}{': ' if server['error'] else ''}{server['error']}"
            is_good = server["state"] in GOOD_SERVERS
            yield (ok if is_good else warn)(f"{section} {server['name']}", text)
    yield from _request(facts.get("request"))


def _trust(state: str) -> Iterator[Finding]:
    match TrustState(state):
        case TrustState.TRUSTED:
            yield ok("trust", "the folder's own configuration is trusted")
        case TrustState.OPEN:
            yield warn("trust", f"the folder's own configuration waits for an answer: {CURE}")
        case TrustState.DENIED:
            yield warn(
                "trust",
                f"the folder's own configuration is not trusted; `{command_line('trust')}` shows it",
            )
        case TrustState.UNNEEDED:
            return


def _model(what: str, choice: dict[str, str]) -> Finding:
    if choice["fault"]:
        return fail(what, choice["fault"])
    if choice["provider"] == OFFLINE_ID:
        return warn(
            what,
            "the built-in offline model, because no provider is configured for this folder:"
            " set ANTHROPIC_API_KEY or OPENAI_API_KEY for the server, or run Ollama",
        )
    return ok(what, f"{choice['model']} of {choice['provider']}")


def _provider(provider: dict[str, Any]) -> str:
    return f"{provider['id']} ({'with a key' if provider['has_key'] else 'without a key'})"


def _request(request: dict[str, Any] | None) -> Iterator[Finding]:
    if request is None or not request["asked"]:
        return
    if request["error"]:
        yield fail("request", request["error"])
    else:
        yield ok("request", f"the large model answered in {request['seconds']:.1f} s")
