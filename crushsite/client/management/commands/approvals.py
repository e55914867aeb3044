"""``manage.py approvals``: what waits for an answer, in all workspaces."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from crushsite.client.client_command import ClientCommand
from crushsite.client.listing import LIMIT, NONE, Column, as_json, duration, items, moment, table

if TYPE_CHECKING:
    from crushclient import Client

COLUMNS = (
    Column("id"),
    Column("kind"),
    Column("what", is_flexible=True),
    Column("where", is_flexible=True),
    Column("session", is_optional=True),
    Column("waits", is_optional=True),
)
PAST = (
    Column("id"),
    Column("state"),
    Column("what", is_flexible=True),
    Column("where", is_flexible=True),
    Column("by", is_optional=True),
    Column("answered", is_optional=True),
)
SHOWN_ID = 8


class Command(ClientCommand):
    help = "Lists the permission requests and questions that wait for an answer, in all folders."
    examples = ("approvals", "approvals --past", "approvals --json")

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--past", action="store_true", help="those that were answered")
        parser.add_argument(
            "--limit", type=int, default=LIMIT, help=f"how many of each (default: {LIMIT}; 0: all)"
        )

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        query = {"state": "past" if options["past"] else "open"}
        limit = max(options["limit"], 0) or None
        approvals, questions = await asyncio.gather(
            items(client, "/api/approvals", query, limit=limit),
            items(client, "/api/questions", query, limit=limit),
        )
        if options["json"]:
            self.stdout.write(as_json({"approvals": approvals, "questions": questions}))
        elif not approvals and not questions:
            self.stdout.write("Nothing has been answered." if options["past"] else "Nothing waits.")
        elif options["past"]:
            self.stdout.write(table(PAST, [_past(row) for row in [*approvals, *questions]]))
        else:
            rows = [_open(row, "permission") for row in approvals]
            rows += [_open(row, "question") for row in questions]
            self.stdout.write(table(COLUMNS, rows))


def _what(row: Mapping[str, Any]) -> str:
    if "questions" in row:
        return "; ".join(str(question["question"]) for question in row["questions"])
    params = row.get("params") or {}
    about = params.get("command") or params.get("file_path") or row.get("description") or ""
    return f"{row['tool_name']} {row['action']}: {about}"


def _open(row: Mapping[str, Any], kind: str) -> list[str]:
    return [
        row["id"][:SHOWN_ID],
        kind,
        _what(row),
        str(row.get("path") or NONE),
        row["session_id"][:SHOWN_ID] or NONE,
        duration(time.time() - row["asked_at"]),
    ]


def _past(row: Mapping[str, Any]) -> list[str]:
    return [
        row["id"][:SHOWN_ID],
        row["state"],
        _what(row),
        str(row.get("path") or NONE),
        (row.get("author") or {}).get("name") or NONE,
        moment(row.get("answered_at")),
    ]
