"""A server from start to stop: folder, lock, database, sockets, signals.

Shared by the ``serve`` and ``web`` commands. Prints one line when it listens
and one when it ends.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from agents.jobs.host import job_host
from crushsite import runtime
from crushsite.logs import set_up_logging
from crushsite.memory import return_large_blocks
from crushsite.process import ServerProcess, Shape, set_process
from crushsite.server_client import SERVER_FILE, named_server
from crushsite.shutdown import StopRequest
from crushsite.start_errors import explained_start
from workspaces.storage.moments import as_rfc3339, now_ms

DEFAULT_HOST = "tcp://127.0.0.1:22787"  # not registered by anybody


def ensure_data_dir() -> Path:
    """The data folder, private to its user."""
    folder: Path = settings.DATA_DIR
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CommandError(
            f"The data folder {folder} cannot be made: {error.strerror}. Set CRUSH_DATA_DIR."
        ) from error
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise CommandError(
            f"The data folder {folder} belongs to another user. Whoever owns it could read keys and"
            " conversations: set CRUSH_DATA_DIR to a folder of your own."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise CommandError(
            f"The data folder {folder} is open to other users (mode"
            f" {stat.S_IMODE(found.st_mode):04o}). It holds keys and conversations: run"
            f" `chmod 700 {shlex.quote(str(folder))}`."
        )
    return folder


@contextmanager
def sole_server(folder: Path) -> Iterator[None]:
    """Holds the folder's lock: a second server on the same data would bypass the first."""
    with folder_lock(folder) as is_ours:
        if not is_ours:
            raise CommandError(held_by(folder))
        yield


@contextmanager
def folder_lock(folder: Path) -> Iterator[bool]:
    """Tries to hold the lock; ``False`` where another process does. Raises ``CommandError``."""
    lock = folder / "server.lock"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if lock.is_symlink():
            raise CommandError(
                f"{lock} is a symbolic link. The server makes this file itself and follows no link"
                " there: remove it."
            ) from error
        raise CommandError(
            f"The data folder {folder} cannot be written: {error.strerror}. Set CRUSH_DATA_DIR."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = True
    except BlockingIOError:
        is_ours = False
    try:
        yield is_ours
    finally:
        os.close(descriptor)


def held_by(folder: Path) -> str:
    holder = named_server(folder)
    if holder is not None and holder.is_temporary:
        return (
            f"A prompt with --wait already runs on {folder} (pid {holder.pid}). Let it end, cancel"
            " it with Ctrl-C, or set CRUSH_DATA_DIR to another folder."
        )
    return f"A server already runs on {folder}. Stop it, or set CRUSH_DATA_DIR to another folder."


def ensure_migrated() -> None:
    """Brings the database to this version; quick when there is nothing to do."""
    if connection.vendor == "sqlite":
        _make_private(str(connection.settings_dict["NAME"]))
    with explained_start():
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", verbosity=0, interactive=False)
    connection.close()


def _make_private(database: str) -> None:
    """SQLite would make its file for everybody to read, and its log like the file."""
    try:
        descriptor = os.open(database, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CommandError(
            f"The database {database} cannot be written: {error.strerror}."
        ) from error
    with suppress(PermissionError):  # another user's: it is as its owner wants it
        os.fchmod(descriptor, 0o600)
    os.close(descriptor)


def check_host(host: str) -> None:
    """Only loopback while there are no accounts."""
    if host.startswith("unix://"):
        return
    if not host.startswith("tcp://"):
        raise CommandError("--host must be tcp://HOST:PORT or unix://PATH.")
    name = host.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if name == "localhost":
        return
    try:
        is_loopback = ipaddress.ip_address(name).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise CommandError(
            f"{name or host!r} is not a loopback address. The server has no accounts, so anyone "
            "who reaches it can run commands as you: use 127.0.0.1 or a unix:// socket."
        )


def run_server(host: str, shape: Shape, *, folder: Path) -> None:
    """Serves until SIGTERM or SIGINT."""
    set_up_logging(settings.CRUSH_LOG_LEVEL)
    return_large_blocks()
    sys.setswitchinterval(0.001)  # the writer's thread gives the loop its turn back soon
    runtime.run(_serve(host, shape, folder=folder))


async def _serve(host: str, shape: Shape, *, folder: Path) -> None:
    from crushsite.asgi.routing import Router, guarded  # noqa: PLC0415  after Django is set up
    from crushsite.server.plain_import import import_daphne_plain  # noqa: PLC0415  the same

    import_daphne_plain()
    from crushsite.server.asgi_server import AsgiServer  # noqa: PLC0415  after Daphne's import
    from crushsite.server.endpoints import EndpointError  # noqa: PLC0415  the same

    stop = StopRequest()
    stop.listen()
    process = ServerProcess(shape, on_exit=stop.requested.set)
    set_process(process)
    router = Router(process)
    try:
        server = AsgiServer(
            guarded(router, unix=host.startswith("unix://")),
            endpoints=[host],
            body_limit=settings.CRUSH_MAX_BODY_BYTES,
            bodies_limit=settings.CRUSH_MAX_BODIES_BYTES,
        )
    except EndpointError as error:
        raise CommandError(str(error)) from error
    with explained_start():
        await process.start()
    try:
        try:
            (endpoint,) = await server.start()
        except EndpointError as error:
            raise CommandError(str(error)) from error
        address = _url_of(str(endpoint))
        with explained_start():
            write_server_file(folder, address)
        print(f"Serving on {address} (data in {folder})", flush=True)  # noqa: T201  for who started it
        await stop.requested.wait()
        stop.announce(process.waits_for(), seconds=settings.CRUSH_DRAIN_SECONDS)
        # Streams stay open meanwhile: readers see how their runs come to an end.
        await process.drain(seconds=settings.CRUSH_DRAIN_SECONDS, hurried=stop.hurried)
    finally:
        stop.begin_end()
        process.is_stopping = True
        await server.stop()
        await job_host().end_users_commands()  # requests wait for them
        await router.api.finish()
        await process.attachments.stop()
        await process.stop()
        set_process(None)
        remove_server_file(folder)
    print("Stopped", flush=True)  # noqa: T201  for who started it


def _url_of(endpoint: str) -> str:
    return endpoint.replace("tcp://", "http://", 1)


def write_server_file(folder: Path, address: str, *, is_temporary: bool = False) -> None:
    """Where commands find this server. A temporary one ends with the prompt that it works on."""
    mine = folder / f".{SERVER_FILE}.{os.getpid()}"
    facts = {
        "url": address,
        "pid": os.getpid(),
        "started_at": as_rfc3339(now_ms()),
        "temporary": is_temporary,
    }
    descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(facts))
    mine.replace(folder / SERVER_FILE)


def remove_server_file(folder: Path) -> None:
    # Several web processes may share a folder: the file is the last one's to start.
    named = named_server(folder)
    if named is not None and named.pid == os.getpid():
        (folder / SERVER_FILE).unlink(missing_ok=True)
