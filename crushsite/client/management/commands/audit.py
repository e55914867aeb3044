"""``manage.py audit``: shows who did what."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
from typing_extensions import override

from crushsite.cli.exit_codes import Exit
from crushsite.cli.terminal import cut, width_of
from crushsite.cli.terminal_output import plain
from crushsite.client.client_command import ClientCommand, NoServer, connected
from crushsite.client.finding import workspace_named
from crushsite.client.listing import NONE, items, moment
from crushsite.client.screen import size_of_terminal

if TYPE_CHECKING:
    from crushclient import Client

LIMIT = 50
LOOK_SECONDS = 0.5
NEWEST = 20  # entries of a look; more follow only if all of them are new
TARGET_WIDTH = 60


class Command(ClientCommand):
    help = "Shows who did what: prompts, cancels, answers, configuration, tokens, sign-ins."
    examples = ("audit", "audit --follow --workspace ~/project", "audit --json --limit 0")
    has_json = False

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", help="only acts in this folder or workspace id")
        parser.add_argument(
            "--follow",
            action="store_true",
            help="go on until Ctrl-C, also through restarts of the server",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object a line")
        parser.add_argument(
            "--limit", type=int, default=LIMIT, help=f"how many at first (default: {LIMIT}; 0: all)"
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except SystemExit as end:
            if not options["follow"] or end.code != Exit.INTERRUPTED:  # the way to end it
                raise

    @override
    async def _act(self, options: Mapping[str, Any]) -> None:
        async with connected(options) as client:
            where = options["workspace"]
            workspace = None if where is None else await workspace_named(client, where, options)
            query = {"workspace_id": None if workspace is None else workspace["id"]}
            limit = max(options["limit"], 0) or None
            found = await items(client, "/api/audit", query, limit=limit)
            for entry in reversed(found):
                self._show(entry, options)
            # With a limit of any kind, what is older than the newest entry was shown or left out.
            last = int(found[0]["id"]) if found else 0
            if not found and not options["follow"] and not options["json"]:
                self.stdout.write("Nothing has been done yet.")
        if options["follow"]:
            await self._follow(last, query, options)

    async def _follow(
        self, last: int, query: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        """Shows each new entry. Waits for a server where none runs: nothing happens without one."""
        from crushclient import ConnectionFailed, ServerFailure  # noqa: PLC0415  loaded by now

        while True:
            with suppress(ConnectionFailed, ServerFailure, NoServer):
                async with connected(options, starts=False) as client:
                    while True:
                        for entry in await _newer(client, query, last):
                            self._show(entry, options)
                            last = int(entry["id"])
                        await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(LOOK_SECONDS)

    def _show(self, entry: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(orjson.dumps(entry).decode())
        else:
            width = size_of_terminal()[0] if sys.stdout.isatty() else None
            self.stdout.write(line_of(entry, width=width))
        self.stdout.flush()


async def _newer(client: Client, query: Mapping[str, Any], last: int) -> list[dict[str, Any]]:
    """The entries after a number, in the order of their time."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await client.request(
            "GET", "/api/audit", query={**query, "limit": NEWEST, "cursor": cursor}
        )
        new = [entry for entry in page["items"] if int(entry["id"]) > last]
        found += new
        cursor = page["next"]
        if cursor is None or len(new) < len(page["items"]):
            return found[::-1]


def line_of(entry: Mapping[str, Any], *, width: int | None = None) -> str:
    """An entry on one line, whose target is cut to fit the width. Pure."""
    actor, address = entry["actor"], entry["address"]
    who = f"{actor['name'] or NONE} ({actor['kind']}{f', {address}' if address else ''})"
    head = f"{moment(entry['at'])}  {cut(who, TARGET_WIDTH)}  {entry['act']}"
    end = f": {entry['outcome']}"
    room = TARGET_WIDTH if width is None else width - width_of(head + end) - 1
    target = cut(entry["target"], min(TARGET_WIDTH, max(room, 1))) if entry["target"] else ""
    return plain(f"{head} {target}".rstrip() + end)
