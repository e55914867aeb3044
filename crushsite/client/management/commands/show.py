"""``manage.py show``: a session's messages, for a person or as JSON."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from crushsite.cli.terminal import visible
from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import folder_of, open_session
from crushsite.client.listing import as_json, below, items, moment, released

if TYPE_CHECKING:
    from crushclient import Client

LIMIT = 100


class Command(ClientCommand):
    help = "Shows a session: its messages, tool calls and results, and what it has cost."
    examples = ("show", "show 5e1e8f0c --limit 10", "show 5e1e8f0c --json | jq '.messages[].role'")

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "session",
            nargs="?",
            default="",
            help="its id, or the beginning of it (default: the newest session of the folder)",
        )
        parser.add_argument("--path", default=".", help="the folder (default: this one)")
        parser.add_argument(
            "--limit",
            type=int,
            default=LIMIT,
            help=f"how many of the newest messages (default: {LIMIT}; 0: all)",
        )

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        path = folder_of(options["path"], options)
        workspace, session_id = await open_session(client, options["session"], path)
        try:
            session = await client.request("GET", below(workspace.id, "sessions", session_id))
            address = f"/v1/workspaces/{workspace.id}/sessions/{session_id}/messages"
            messages = list(await client.request("GET", address))
            runs = await items(
                client, below(workspace.id, "runs"), {"session": session_id}, limit=1
            )
        finally:
            await released(client, workspace)
        limit = max(options["limit"], 0)
        shown = messages[-limit:] if limit else messages
        if options["json"]:
            self.stdout.write(as_json({"session": session, "messages": shown}))
            return
        left = len(messages) - len(shown)
        last = f"; the last run {runs[0].get('outcome') or runs[0]['state']}" if runs else ""
        self.stdout.write(visible(session["title"] or "New session"))
        self.stdout.write(
            f"{session_id} in {visible(workspace.path)}: {len(messages)} messages,"
            f" {session['total_prompt_tokens'] + session['total_completion_tokens']:,} tokens,"
            f" ${session['cost']:.4f}, changed {moment(session['updated_at'])}{last}"
        )
        if left:
            self.stdout.write(f"… {left:,} earlier messages: --limit 0 shows all")
        self._print(shown)

    def _print(self, messages: list[dict[str, Any]]) -> None:
        if not sys.stdout.isatty():
            from crushsite.client.plain_transcript import lines_of_message  # noqa: PLC0415

            for message in messages:
                for line in lines_of_message(message):
                    self.stdout.write(line)
            return
        # Drawing takes a moment to load.
        from crushsite.client.screen import rendered, size_of_terminal  # noqa: PLC0415
        from crushsite.client.transcript import whole_message  # noqa: PLC0415

        width, _ = size_of_terminal()
        for message in messages:
            for part in whole_message(message):
                self.stdout.write(rendered(part, width), ending="")
