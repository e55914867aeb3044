"""``manage.py prune``: deletes old sessions, or old rows of other kinds."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection
from typing_extensions import override

from crushsite.cli.servers import chosen_login
from crushsite.cli.stored_people import refuse_tools
from crushsite.cli.terminal import cut
from crushsite.client.client_command import ClientCommand
from crushsite.client.listing import Column, as_json, below, moment, opened, shown_id, table
from crushsite.client.progress import progress
from crushsite.retention.kinds import (
    DAY_MS,
    LEAST_DAYS,
    WITHOUT_WORKSPACE,
    RetentionKind,
    count_old,
    old_batches,
)
from crushsite.storage import require_database
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer
from workspaces.models import Session
from workspaces.queries.workspaces import find_workspace

if TYPE_CHECKING:
    from crushclient import Client

KINDS = [kind.value for kind in RetentionKind if kind is not RetentionKind.SESSIONS]
PAUSE_SECONDS = 0.01  # at least, between transactions
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
        " With --kind: counts and deletes old rows of these kinds, while the server runs."
    )
    examples = (
        "prune --older-than 90d",
        "prune --older-than 30d --archived --yes",
        "prune --kind events --kind steps --dry-run",
    )

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--older-than",
            metavar="TIME",
            help="days or weeks, like 90d or 12w; may be left out for a kind with an age of its own"
            " in the settings",
        )
        parser.add_argument(
            "--kind",
            action="append",
            choices=KINDS,
            help="what to delete instead of sessions: events of logs, steps of ended runs, notices"
            " that were delivered, expired tokens and sign-ins, audit entries. May be repeated",
        )
        parser.add_argument("--path", help="only in this folder")
        parser.add_argument("--archived", action="store_true", help="only archived sessions")
        acts = parser.add_mutually_exclusive_group()
        acts.add_argument("--dry-run", action="store_true", help="only list or count them")
        acts.add_argument("--yes", action="store_true", help="delete them without a question")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if chosen_login(options) is not None:
            raise CommandError("prune works on this machine's server: run it there.")
        refuse_tools()
        require_database()
        if options["kind"]:
            self._prune_rows(options)
            return
        if options["older_than"] is None:
            raise CommandError("Sessions need --older-than TIME, like 90d.")
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
        if _acts(options, len(found), "session"):
            super().handle(*args, **options, found=found)

    def _prune_rows(self, options: Mapping[str, Any]) -> None:
        try:
            wanted = chosen_rows(options)
            counts = [
                count_old(each.kind, before=each.before, workspace_id=each.workspace_id)
                for each in wanted
            ]
            does_delete = _acts(options, sum(counts), "row")
            deleted = [
                self._delete_rows(each, total) if does_delete else 0
                for each, total in zip(wanted, counts, strict=True)
            ]
        finally:
            connection.close()
        found = [
            {"kind": each.kind, "days": each.days, "rows": rows, "deleted": gone}
            for each, rows, gone in zip(wanted, counts, deleted, strict=True)
        ]
        if options["json"]:
            self.stdout.write(as_json(found))
            return
        self.stdout.write(
            table(
                (
                    Column("kind"),
                    Column("days", is_number=True),
                    Column("rows", is_number=True),
                    Column("deleted", is_number=True),
                ),
                [[str(value) for value in each.values()] for each in found],
            )
        )

    def _delete_rows(self, each: OldRows, total: int) -> int:
        """Deletes in small transactions. The server writes between them."""
        deleted = 0
        with progress(f"Deleting {each.kind}", total=total) as advance:
            for batch in old_batches(each.kind, before=each.before, workspace_id=each.workspace_id):
                began = time.monotonic()
                with suppress(WorkspaceUnknown):
                    done = writer.write_and_wait(batch.workspace_id, batch.job)
                    deleted += done
                    advance(done)
                time.sleep(max(PAUSE_SECONDS, time.monotonic() - began))
        return deleted

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


@dataclass(frozen=True, slots=True)
class OldRows:
    """The rows of a kind to delete: those before a time in milliseconds."""

    kind: RetentionKind
    days: int
    before: int
    workspace_id: str | None


def chosen_rows(options: Mapping[str, Any]) -> list[OldRows]:
    """Raises ``CommandError``."""
    if options["archived"]:
        raise CommandError("--archived chooses sessions: use it without --kind.")
    workspace_id = None
    if options["path"] is not None:
        path = os.path.realpath(Path(options["path"]).expanduser())
        workspace_id = find_workspace(path)
        if not workspace_id:
            raise CommandError(f"No client has opened {path}.")
    chosen = []
    for kind in map(RetentionKind, dict.fromkeys(options["kind"])):
        days = settings.CRUSH_RETENTION_DAYS[kind]
        if options["older_than"] is not None:
            days = days_of(options["older_than"])
        elif not days:
            raise CommandError(f"Name an age for {kind}: by its setting, they are kept.")
        if days < LEAST_DAYS.get(kind, 0):
            raise CommandError(f"--older-than must be at least {LEAST_DAYS[kind]}d for {kind}.")
        if kind in WITHOUT_WORKSPACE and workspace_id is not None:
            raise CommandError(f"{kind} belong to no folder: leave --path out.")
        chosen.append(OldRows(kind, days, now_ms() - days * DAY_MS, workspace_id))
    return chosen


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


def _acts(options: Mapping[str, Any], count: int, what: str) -> bool:
    """Returns whether to delete so many; asks. Raises ``CommandError``."""
    if not count or options["dry_run"] or options["yes"]:
        return bool(count and options["yes"])
    if not sys.stdin.isatty():
        raise CommandError("There is no terminal to confirm it: use --yes, or --dry-run.")
    sys.stderr.write(f"Delete {count} {what}{'' if count == 1 else 's'} for good? [y]es, [n]o: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
