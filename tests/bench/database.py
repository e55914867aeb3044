"""A migrated database of a measurement's own, with Django, in this process and without a server."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path


def prepare_database(stack: ExitStack, kind: str, *, name: str) -> Path:
    """Prepares ``sqlite`` or ``postgresql`` and Django; returns a folder for files.

    ``stack`` ends it all. Call it before anything imports Django's settings.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"crush-{name}-")))
    (folder / "data").mkdir(mode=0o700)
    os.environ |= {
        "CRUSH_DATA_DIR": str(folder / "data"),
        "DJANGO_SETTINGS_MODULE": "crushsite.settings",
    }
    if kind == "postgresql":
        os.environ["DATABASE_URL"] = start_postgres(stack, folder)
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", verbosity=0)
    stack.callback(connections.close_all)
    return folder


def start_postgres(stack: ExitStack, folder: Path) -> str:
    """Starts PostgreSQL, until the end of ``stack``; returns its address."""
    from tests.acceptance.harness.services import Services, missing_services

    if reason := missing_services():
        raise SystemExit(reason)
    services = Services(folder)
    stack.callback(services.stop)
    services.start()
    addresses = services.allocate(lambda _: None)
    stack.callback(services.release, addresses)
    return addresses.database_url
