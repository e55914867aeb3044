"""``manage.py sessions``: what conversations there are."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import BaseCommand
from typing_extensions import override

from crushsite.cli.stored_sessions import StoredSession, list_stored
from crushsite.cli.tables import aligned, cut
from crushsite.database import require_database
from workspaces.log.timestamps import as_rfc3339

TITLE_WIDTH = 44
LIMIT = 50


class Command(BaseCommand):
    help = "Lists sessions, the newest first: of one folder, or of all."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", nargs="?", help="only the sessions of this folder")
        parser.add_argument("--json", action="store_true", help="print a JSON array")
        parser.add_argument(
            "--limit", type=int, default=LIMIT, help=f"how many at most (default: {LIMIT}; 0: all)"
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        require_database()
        path, limit = options["path"], max(options["limit"], 0)
        where = None if path is None else os.path.realpath(Path(path).expanduser())
        found = list_stored(path=where, limit=limit + 1 if limit else None)
        shown = found[:limit] if limit else found
        if options["json"]:
            self.stdout.write(as_json(shown))
            return
        if not shown:
            self.stdout.write("No sessions." if where is None else f"No sessions in {where}.")
            return
        self.stdout.write(as_table(shown, with_path=where is None))
        if len(found) > len(shown):
            self.stdout.write(f"… and more: --limit {limit * 10}, or 0 for all")


def as_table(sessions: list[StoredSession], *, with_path: bool) -> str:
    headings = ["id", "title", "busy", "messages", "cost", "updated"]
    rows = [
        [
            session.id,
            cut(session.title, TITLE_WIDTH) or "–",
            "busy" if session.is_busy else "",
            str(session.message_count),
            f"{session.cost:.4f}",
            f"{as_rfc3339(session.updated_at)[:19]}Z".replace("T", " "),
            *([session.path] if with_path else []),
        ]
        for session in sessions
    ]
    return aligned([*headings, "path"] if with_path else headings, rows)


def as_json(sessions: list[StoredSession]) -> str:
    rows = [
        asdict(session) | {"updated_at": as_rfc3339(session.updated_at)} for session in sessions
    ]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode()
