"""``manage.py attach``: follows a session at a terminal, and answers its requests with a key."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson
from typing_extensions import override

from crushsite.cli.terminal import visible
from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import folder_of, open_session
from crushsite.client.listing import released
from crushsite.program_name import command_line

if TYPE_CHECKING:
    from crushclient import Client, FoldedSession

KEPT = 200  # messages


class Command(ClientCommand):
    help = (
        "Follows a session live: words, tool calls, diffs. Answers permission requests and questions"
        " with a key, and sends prompts. It survives restarts of the server; leaving ends nothing."
    )
    examples = (
        "attach",
        "attach 5e1e8f0c",
        "attach --new --path ~/project",
        "attach --json | jq .type",
    )
    works = True

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "session",
            nargs="?",
            default="",
            help="its id, or the beginning of it (default: the newest session of the folder)",
        )
        parser.add_argument("--path", default=".", help="the folder (default: this one)")
        parser.add_argument("--new", action="store_true", help="start a new session")

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        path = folder_of(options["path"], options)
        workspace, session_id = await open_session(
            client, options["session"], path, is_new=options["new"]
        )
        async with client.follow(
            workspace.id,
            session_id,
            client_id=workspace.client_id,
            path=workspace.path,
            limit=KEPT,
        ) as session:
            try:
                await self._follow(session, as_json=options["json"])
            finally:
                await released(client, workspace)

    async def _follow(self, session: FoldedSession, *, as_json: bool) -> None:
        if as_json:
            async for item in session:
                shown = {"item": type(item).__name__, **asdict(item)}
                self.stdout.write(orjson.dumps(shown).decode())
                self.stdout.flush()
            return
        # Drawing takes a moment to load.
        from crushsite.client.attached import Attached  # noqa: PLC0415
        from crushsite.client.screen import KeyTerminal, LineTerminal  # noqa: PLC0415

        terminal, lines = KeyTerminal.of_this_process(), LineTerminal.of_this_process()
        if terminal is None or lines is None or not sys.stdout.isatty():
            await self._follow_plainly(session)
            return
        is_busy = await Attached(session, terminal, lines).run()
        title = visible(str((session.session or {}).get("title") or session.session_id))
        state = "It goes on working." if is_busy else ""
        again = command_line(f"attach {session.session_id[:8]}")
        self.stdout.write(f"Left {title}. {state} Come back with `{again}`.".replace("  ", " "))

    async def _follow_plainly(self, session: FoldedSession) -> None:
        """Without a terminal: prints each message when it is complete."""
        from crushclient import LogEvent  # noqa: PLC0415  the same
        from crushsite.client.plain_transcript import lines_of_message  # noqa: PLC0415

        for message in session.messages:
            if not message.is_open:
                self.stdout.write("\n".join(lines_of_message(message.to_wire())))
        async for item in session:
            if isinstance(item, LogEvent) and item.type in {"message.created", "message.finished"}:
                self.stdout.write("\n".join(lines_of_message(item.data["message"])))
                self.stdout.flush()
