"""``manage.py prune``: deletes old sessions."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.db import connection
from typing_extensions import override

from crushsite.cli.servers import chosen_login
from crushsite.cli.stored_people import refuse_tools
from crushsite.cli.terminal import cut
from crushsite.client.client_command import ClientCommand
from crushsite.client.listing import Column, as_json, below, moment, opened, shown_id, table
from crushsite.client.progress import progress
from crushsite.storage import require_database
from workspaces.log.timestamps import now_ms
from workspaces.models import Session

if TYPE_CHECKING:
    from crushclient import Client

DAY_MS = 86_400_000
TITLE_WIDTH = 44
COLUMNS = (
    Column("id"),
    Column("title", is_flexible=True),
    Column("messages", is_number=True, is_optional=True),
    Column("changed"),
    Column("path", is_flexible=True),
)


class Command(ClientCommand):
    help = (
        "Deletes the sessions of this machine's server that have not changed for a time, with their"
        " child sessions. Pinned and busy sessions stay. Lists them, and asks before it deletes."
    )
    examples = ("prune --older-than 90d", "prune --older-than 30d --archived --yes")

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--older-than", required=True, metavar="TIME", help="days or weeks, like 90d or 12w"
        )
        parser.add_argument("--path", help="only sessions of this folder")
        parser.add_argument("--archived", action="store_true", help="only archived sessions")
        acts = parser.add_mutually_exclusive_group()
        acts.add_argument("--dry-run", action="store_true", help="only list them")
        acts.add_argument("--yes", action="store_true", help="delete them without a question")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if chosen_login(options) is not None:
            raise CommandError("prune works on this machine's server: run it there.")
        refuse_tools()
        require_database()
        found = old_sessions(options)
        if options["json"]:
            self.stdout.write(as_json(found))
        elif not found:
            self.stdout.write("No session is that old.")
        else:
            rows = [
                [
                    shown_id(session["id"]),
                    cut(session["title"], TITLE_WIDTH) or "–",
                    str(session["message_count"]),
                    moment(session["updated_at"]),
                    session["path"],
                ]
                for session in found
            ]
            self.stdout.write(table(COLUMNS, rows))
        if found and not options["dry_run"] and (options["yes"] or _is_confirmed(len(found))):
            super().handle(*args, **options, found=found)

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        found = options["found"]
        by_path: dict[str, list[str]] = {}
        for session in found:
            by_path.setdefault(session["path"], []).append(session["id"])
        done, missing = 0, []
        with progress("Deleting", total=len(found)) as advance:
            for path, ids in by_path.items():
                if not await asyncio.to_thread(Path(path).is_dir):
                    missing.append(path)
                    continue
                async with opened(client, path) as workspace:
                    for session_id in ids:
                        await client.request("DELETE", below(workspace.id, "sessions", session_id))
                        done += 1
                        advance(1)
        for path in missing:
            self.stderr.write(f"{path} does not exist: its sessions stay.")
        self.stderr.write(f"Deleted {done} session{'' if done == 1 else 's'}.")


def old_sessions(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sessions to delete, the oldest first. Raises ``CommandError``."""
    before = now_ms() - days_of(options["older_than"]) * DAY_MS
    rows = Session.objects.filter(
        is_deleting=False,
        parent_session_id="",
        is_busy=False,
        pinned_at__isnull=True,
        updated_at__lt=before,
    )
    if options["archived"]:
        rows = rows.filter(archived_at__isnull=False)
    if options["path"] is not None:
        rows = rows.filter(workspace__path=os.path.realpath(Path(options["path"]).expanduser()))
    try:
        found = list(rows.select_related("workspace").order_by("updated_at", "pk"))
    finally:
        connection.close()
    return [
        {
            "id": row.pk,
            "title": row.title,
            "path": row.workspace.path,
            "message_count": row.message_count,
            "updated_at": row.updated_at // 1000,
        }
        for row in found
    ]


def days_of(text: str) -> int:
    match = re.fullmatch(r"(\d{1,5})([dw])", text)
    if match is None:
        raise CommandError("--older-than must be a time like 90d or 12w.")
    return int(match[1]) * (7 if match[2] == "w" else 1)


def _is_confirmed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise CommandError("There is no terminal to confirm it: use --yes, or --dry-run.")
    sys.stderr.write(f"Delete {count} session{'' if count == 1 else 's'} for good? [y]es, [n]o: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
