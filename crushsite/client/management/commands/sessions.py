"""``manage.py sessions``: lists the sessions."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import folder_of
from crushsite.client.listing import NONE, Column, as_json, items, moment, shown_id, table

if TYPE_CHECKING:
    from crushclient import Client

LIMIT = 50
COLUMNS = (
    Column("id"),
    Column("title", is_flexible=True, widest=44),
    Column("busy"),
    Column("messages", is_number=True, is_optional=True),
    Column("cost", is_number=True, is_optional=True),
    Column("updated", is_optional=True),
)
PATH = Column("path", is_flexible=True)


class Command(ClientCommand):
    help = "Lists sessions, the newest first: of one folder, or of all, also of closed workspaces."
    examples = ("sessions", "sessions . --json", "sessions --server https://crush.example.com")

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", nargs="?", help="only the sessions of this folder")
        parser.add_argument(
            "--limit", type=int, default=LIMIT, help=f"how many at most (default: {LIMIT}; 0: all)"
        )

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        limit = max(options["limit"], 0)
        where = None if options["path"] is None else folder_of(options["path"], options)
        query = {"path": where}
        found = await items(client, "/api/sessions", query, limit=limit + 1 if limit else None)
        shown = found[:limit] if limit else found
        if options["json"]:
            self.stdout.write(as_json([for_programs(session) for session in shown]))
        elif not shown:
            self.stdout.write("No sessions." if where is None else f"No sessions in {where}.")
        else:
            self.stdout.write(as_table(shown, with_path=where is None))
            if len(found) > len(shown):
                self.stdout.write(f"… and more: --limit {limit * 10}, or 0 for all")


def as_table(sessions: Sequence[Mapping[str, Any]], *, with_path: bool) -> str:
    rows = [
        [
            shown_id(session["id"]),
            session["title"] or NONE,
            "busy" if session["is_busy"] else "",
            session["message_count"],
            f"{session['cost']:.4f}",
            moment(session["updated_at"]),
            *([session["path"]] if with_path else []),
        ]
        for session in sessions
    ]
    return table([*COLUMNS, PATH] if with_path else COLUMNS, rows)


def for_programs(session: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": session["id"],
        "title": session["title"],
        "workspace_id": session["workspace_id"],
        "path": session["path"],
        "is_busy": session["is_busy"],
        "message_count": session["message_count"],
        "prompt_tokens": session["total_prompt_tokens"],
        "completion_tokens": session["total_completion_tokens"],
        "cost": session["cost"],
        "updated_at": f"{datetime.fromtimestamp(session['updated_at'], UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
