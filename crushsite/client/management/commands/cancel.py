"""``manage.py cancel``: ends what runs and waits in a session."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from agents.states import RunState
from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import find_session, folder_of
from crushsite.client.listing import below, items

if TYPE_CHECKING:
    from crushclient import Client


class Command(ClientCommand):
    help = "Cancels everything that was accepted in a session until now."
    examples = ("cancel 5e1e8f0c", "cancel 5e1e8f0c --server https://crush.example.com")
    has_json = False

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("session", help="the session's id, or the beginning of it")
        parser.add_argument("--path", help="only a session of this folder")

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        # The workspace stays closed if it is: opening it would resume runs that wait for an answer.
        where = None if options["path"] is None else folder_of(options["path"], options)
        session = await find_session(client, options["session"], path=where)
        workspace_id, session_id = session["workspace_id"], session["id"]
        unfinished = await asyncio.gather(
            *(
                items(
                    client,
                    below(workspace_id, "runs"),
                    {"session": session_id, "state": state.value},
                )
                for state in RunState
                if state is not RunState.FINISHED
            )
        )
        await client.request("POST", below(workspace_id, "sessions", session_id, "cancel"))
        count = sum(map(len, unfinished))
        if not count:
            self.stdout.write("Nothing was running or waiting.")
        else:
            self.stdout.write(f"Cancelled {count} prompt{'' if count == 1 else 's'}.")
