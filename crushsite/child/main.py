"""``manage.py runchild``: a child process, which starts without Django.

The settings would name the server's database. They are read only when an assignment needs a turn
of this server, and then name the child's own database. It is in the folder that the parent names,
or else in a temporary folder that is removed at the end. The database is new each time, because
the parent keeps the conversation. Its tables are created from the models, twenty times as fast as
by a hundred migrations; a test compares the two.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import importlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agents.fleet.child.executor import ExecutorFailed
from agents.fleet.child.process import ACCEPT_SECONDS, ChildOptions, run_child
from agents.fleet.child.run_context import RunContext
from agents.fleet.provisioning.spec import ProvisionSpec
from agents.fleet.wire.frames import Terminal

if TYPE_CHECKING:
    from agents.fleet.child.turn import TurnExecutor
    from crushsite.child.child_server import ChildServer

# Another program's name for its own kind of turn, and our name.
TURNS = ("bamboo_runtime", "crush")
LOADED = ("crushsite.child.child_server", "agents.llm.wires.openai")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="manage.py runchild",
        description="Serves assignments of parents over a WebSocket on 127.0.0.1. Reads one"
        " provisioning document on standard input.",
    )
    add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.print_capabilities:
        print(json.dumps({"provision_version": 2, "capabilities": []}))  # noqa: T201  the output
        return 0
    return run_child(
        ChildOptions(
            is_forever=options.forever,
            is_detached=options.detached,
            accept_seconds=options.accept_timeout,
        ),
        dict.fromkeys(TURNS, OwnTurn),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--forever",
        action="store_true",
        help="serve any number of parents at once, until stopped",
    )
    parser.add_argument(
        "--detached",
        action="store_true",
        help="keep running when the process that started this one ends",
    )
    parser.add_argument(
        "--accept-timeout",
        type=_seconds,
        default=ACCEPT_SECONDS,
        metavar="SECONDS",
        help="how long a child for one connection waits for it (default: %(default)g)",
    )
    parser.add_argument(
        "--print-capabilities",
        action="store_true",
        help="print the capabilities of this program as JSON, and exit",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("must be more than 0 and at most 86400")
    return seconds


class OwnTurn:
    """The executor of a spawned child: a whole server of its own, without sockets.

    ``stop`` ends everything that a turn has started.
    """

    def __init__(self, spec: ProvisionSpec) -> None:
        self._spec = spec
        self._temporary: Path | None = None
        self._lock: int | None = None
        self._server: ChildServer | None = None

    async def start(self) -> None:
        """Starts the server and opens the workspace. Raises ``ExecutorFailed``."""
        await asyncio.to_thread(self._prepare)
        # In a thread as well, so that the loop can answer the parent's handshake meanwhile.
        await asyncio.to_thread(_load)
        from crushsite.child.child_server import ChildServer  # noqa: PLC0415  after `_load`

        self._server = ChildServer(self._spec)
        await self._server.start()

    async def run(self, context: RunContext) -> Terminal:
        if self._server is None:
            raise ExecutorFailed("The child has not been started.")
        return await self._server.run(context)

    async def turns_in(self, folder: Path) -> TurnExecutor:
        """Returns the executor of another folder. Call it after ``start``.

        Raises ``ExecutorFailed``.
        """
        if self._server is None:
            raise ExecutorFailed("The child has not been started.")
        return await self._server.turns_in(replace(self._spec, workspace=str(folder)))

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        if self._lock is not None:
            os.close(self._lock)
        if self._temporary is not None:
            await asyncio.to_thread(shutil.rmtree, self._temporary, ignore_errors=True)

    def _prepare(self) -> None:
        if self._spec.storage_dir is not None:
            folder = Path(self._spec.storage_dir) / self._spec.identity.child_id
        else:
            folder = self._temporary = Path(tempfile.mkdtemp(prefix="crush-child-"))
        self._lock = hold_folder(folder)
        set_up_in(folder)


def _load() -> None:
    for name in LOADED:
        importlib.import_module(name)


DATABASE = "server.sqlite3"
LOCK = "child.lock"
# Variables that name or unlock a server's data. The parent process may be a server.
SERVERS_OWN = (
    "DATABASE_URL",
    "REDIS_URL",
    "CRUSH_SECRET_KEY",
    "CRUSH_FLEET_TOKEN",
    "CRUSH_GATES",
    "CRUSH_SQLITE_FSYNC",
)


def hold_folder(folder: Path) -> int:
    """Creates and locks the folder; returns the lock's descriptor. Raises ``ExecutorFailed``."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ExecutorFailed(
            f"The folder of the sub-agent, {folder}, cannot be used: {error.strerror}."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ExecutorFailed(
            f"Another process uses the folder of the sub-agent, {folder}."
        ) from None
    return descriptor


def set_up_in(folder: Path) -> None:
    """Sets up Django on a new database here. Call it once, before any setting is read."""
    for name in SERVERS_OWN:
        os.environ.pop(name, None)
    os.environ["CRUSH_DATA_DIR"] = str(folder)
    os.environ["DJANGO_SETTINGS_MODULE"] = "crushsite.child.settings"
    for ending in ("", "-wal", "-shm", "-journal"):
        (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)
    os.close(os.open(folder / DATABASE, os.O_RDWR | os.O_CREAT, 0o600))
    import django  # noqa: PLC0415  its settings are named only now

    django.setup()
    create_tables()


def create_tables() -> None:
    from django.apps import apps  # noqa: PLC0415  after Django is set up
    from django.db import connection  # noqa: PLC0415  after Django is set up

    with connection.schema_editor() as editor:
        for app in ("workspaces", "permissions", "agents"):
            for model in apps.get_app_config(app).get_models():
                editor.create_model(model)
    connection.close()
