"""``manage.py import``: adds the sessions of an exported file to a folder."""

from __future__ import annotations

import sys
import uuid
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from typing_extensions import override

from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import folder_of
from crushsite.client.listing import as_json, below, opened
from crushsite.client.progress import progress

if TYPE_CHECKING:
    from crushclient import Client

SECONDS = 600.0


class Command(ClientCommand):
    help = "Adds the sessions of a file that `export` has written, with new ids."
    examples = ("import session.jsonl", "export 5e1e8f0c | crush-server import - --path ~/other")

    @override
    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="the file; - reads standard input")
        parser.add_argument("--path", default=".", help="the folder (default: this one)")

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        content = _content_of(options["file"])
        async with opened(client, folder_of(options["path"], options)) as workspace:
            with progress(f"Importing {len(content):,} bytes"):
                reply = await client.exchange(
                    "POST",
                    below(workspace.id, "sessions", "import"),
                    content=content,
                    content_type="application/x-ndjson",
                    idempotency_key=str(uuid.uuid4()),
                    seconds=SECONDS,
                )
        self.stdout.write(as_json(reply.data) if options["json"] else str(reply.data["id"]))


def _content_of(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).expanduser().read_bytes()
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.") from error
