"""Imports REST framework without its optional dependencies.

Its ``compat`` module imports every installed one: PostgreSQL's fields, and with them all of
psycopg, even in a server with SQLite. pygments is there for what commands show. The server uses
none of them. Hiding them saves 10 MB and 0.05 s of each start (`python -m tests.bench.imports`).
"""

from __future__ import annotations

import importlib
import sys

_OPTIONAL = (
    *("django.contrib.postgres", "uritemplate", "yaml", "inflection", "requests"),
    "pygments",
)


def import_framework_lean() -> None:
    """Imports the framework. Call it before any other import of it; later it has no effect."""
    hidden = [name for name in _OPTIONAL if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # makes the import fail
    try:
        importlib.import_module("rest_framework.compat")
    finally:
        for name in hidden:
            del sys.modules[name]
