"""A database of the child's own, new each time: the parent keeps what was said.

Its tables are made from the models, which is twenty times as quick as a hundred
migrations; a test holds the two against each other. Blocks: call it in a thread.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from agents.fleet.child.executor import ExecutorFailed

DATABASE = "server.sqlite3"
LOCK = "child.lock"
# What names a server's data or opens it. The process that started this one may be one.
SERVERS_OWN = (
    "DATABASE_URL",
    "REDIS_URL",
    "CRUSH_SECRET_KEY",
    "CRUSH_FLEET_TOKEN",
    "CRUSH_GATES",
    "CRUSH_SQLITE_FSYNC",
)


def hold_folder(folder: Path) -> int:
    """The folder, made and locked; the descriptor holds it. Raises ``ExecutorFailed``."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ExecutorFailed(f"The child's folder cannot be used: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ExecutorFailed("Another process uses the folder of this child.") from None
    return descriptor


def set_up_in(folder: Path) -> None:
    """Django on a new database in this folder. Once in a process, before any setting is read."""
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
