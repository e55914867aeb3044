"""``manage.py queue``: the prompts that wait in a session."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from typing_extensions import override

from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import folder_of, open_session
from crushsite.client.listing import (
    NONE,
    Column,
    as_json,
    below,
    duration,
    items,
    released,
    table,
)

if TYPE_CHECKING:
    from crushclient import Client

COLUMNS = (
    Column("prompt", is_number=True),
    Column("text", is_flexible=True),
    Column("by", is_optional=True),
    Column("waits"),
    Column("place", is_number=True, is_optional=True),
)


class Command(ClientCommand):
    help = "Lists the prompts that wait in a session, in order; changes, moves and removes them."
    examples = (
        "queue",
        "queue 5e1e8f0c --first 42",
        "queue 5e1e8f0c --edit 42 'list only the tests'",
        "queue 5e1e8f0c --remove 42",
    )

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "session",
            nargs="?",
            default="",
            help="its id, or the beginning of it (default: the newest session of the folder)",
        )
        parser.add_argument("--path", default=".", help="the folder (default: this one)")
        acts = parser.add_mutually_exclusive_group()
        acts.add_argument("--first", type=int, metavar="N", help="let this prompt run next")
        acts.add_argument(
            "--steer", type=int, metavar="N", help="let it join the running turn at its next step"
        )
        acts.add_argument("--edit", nargs=2, metavar=("N", "TEXT"), help="change its text")
        acts.add_argument("--remove", type=int, metavar="N", help="remove it")
        acts.add_argument("--clear", action="store_true", help="remove all")

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        path = folder_of(options["path"], options)
        workspace, session_id = await open_session(client, options["session"], path)
        address = below(workspace.id, "sessions", session_id, "queue")
        try:
            await _change(client, workspace.id, address, options)
            found = await items(client, address)
            if not found or "queue_place" not in found[0]:
                found = [*await _first(client, workspace.id, session_id), *found]
        finally:
            await released(client, workspace)
        if options["json"]:
            self.stdout.write(as_json(found))
        elif not found:
            self.stdout.write("No prompt waits.")
        else:
            now = time.time()
            rows = [
                [
                    str(run["key"]),
                    run["prompt"],
                    (run.get("author") or {}).get("name") or NONE,
                    duration(now - run["accepted_at"]),
                    str(run.get("queue_place", NONE)),
                ]
                for run in found
            ]
            self.stdout.write(table(COLUMNS, rows))


async def _first(client: Client, workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """The prompt that waits for a worker and behind no other one, if there is such a prompt."""
    query = {"session": session_id, "state": "accepted"}
    accepted = await items(client, below(workspace_id, "runs"), query)
    return [run for run in accepted if not run["was_queued"] and "queue_place" in run]


async def _change(
    client: Client, workspace_id: str, address: str, options: Mapping[str, Any]
) -> None:
    if options["first"] is not None:
        await client.request("PATCH", address, body={"keys": [options["first"]]})
    elif options["steer"] is not None:
        await client.request("POST", below(workspace_id, "queue", str(options["steer"]), "steer"))
    elif options["edit"]:
        key, text = options["edit"]
        if not key.isdecimal():
            raise CommandError("--edit needs the number of a prompt, and its new text.")
        await client.request("PATCH", below(workspace_id, "queue", key), body={"text": text})
    elif options["remove"] is not None:
        await client.request("DELETE", below(workspace_id, "queue", str(options["remove"])))
    elif options["clear"]:
        await client.request("DELETE", address)
