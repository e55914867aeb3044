"""``manage.py export``: a session as a file."""

from __future__ import annotations

import codecs
import os
import sys
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from typing_extensions import override

from crushsite.cli.terminal_output import plain
from crushsite.client.client_command import ClientCommand
from crushsite.client.finding import folder_of, open_session
from crushsite.client.listing import below, released
from crushsite.client.progress import progress

if TYPE_CHECKING:
    from crushclient import Client

SECONDS = 600.0
STYLES = ("jsonl", "markdown")


class Command(ClientCommand):
    help = "Writes a session with its child sessions: as JSON lines for `import`, or as Markdown."
    examples = (
        "export 5e1e8f0c -o session.jsonl",
        "export 5e1e8f0c --format markdown | less",
    )
    has_json = False

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
            "--format",
            choices=STYLES,
            default=STYLES[0],
            help="jsonl can be imported; markdown is for people (default: jsonl)",
        )
        parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
        parser.add_argument("--force", action="store_true", help="replace an existing file")

    @override
    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        file = _file_of(options)
        path = folder_of(options["path"], options)
        workspace, session_id = await open_session(client, options["session"], path)
        address = below(workspace.id, "sessions", session_id, "export")
        pieces = client.download(address, query={"kind": options["format"]}, seconds=SECONDS)
        try:
            with progress("Exporting", is_bytes=True) as advance:
                size = await _written(file, pieces, advance)
        finally:
            await released(client, workspace)
        if file is not None:
            self.stderr.write(f"Wrote {size:,} bytes to {file}.")


def _file_of(options: Mapping[str, Any]) -> Path | None:
    """Raises ``CommandError`` for a file that must not be replaced."""
    if options["output"] in {None, "-"}:
        return None
    file = Path(options["output"]).expanduser()
    if file.exists() and not options["force"]:
        raise CommandError(f"{file} exists already. --force replaces it.")
    return file


async def _written(
    file: Path | None, pieces: AsyncIterator[bytes], advance: Callable[[int], None]
) -> int:
    """Writes the pieces as they come; returns how many bytes. Raises ``CommandError``."""
    size = 0
    with ExitStack() as stack:
        write = _on_standard_output if file is None else stack.enter_context(_private(file))
        async for piece in pieces:
            write(piece)
            size += len(piece)
            advance(len(piece))
        write(b"")
    return size


def _on_standard_output(piece: bytes) -> None:
    """Writes a piece; an empty one is the end."""
    if sys.stdout.isatty():
        # A character may be cut between two pieces.
        sys.stdout.write(plain(_TERMINAL.decode(piece, final=not piece)))
    else:
        sys.stdout.buffer.write(piece)
    sys.stdout.flush()


_TERMINAL = codecs.getincrementaldecoder("utf-8")(errors="replace")


@contextmanager
def _private(file: Path) -> Iterator[Callable[[bytes], object]]:
    """A file that only this user can read, since conversations may hold secrets; whole or not at all."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream.write
        new.replace(file)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        new.unlink(missing_ok=True)
