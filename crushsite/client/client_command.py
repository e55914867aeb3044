"""The base of the commands that use a server, and the server of a command that finds none.

``connected`` opens the client of the chosen server. On this machine without a running server, it
starts one in this process, on a private socket file, which ends with the command.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.cli.exit_codes import Exit
from crushsite.cli.servers import add_server_options, chosen_login
from crushsite.cli.terminal import visible
from crushsite.client.progress import progress
from crushsite.program_name import command_line
from crushsite.server_client import RunningServer, find_running_server

if TYPE_CHECKING:
    from pathlib import Path

    from crushclient import Client, CrushError

UNAUTHORISED = frozenset({401, 403})
LOCK_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.1


class NoServer(CommandError):
    """No server runs here, and the command starts none."""

    def __init__(self) -> None:
        super().__init__(
            f"No server runs here: start `{command_line('serve')}`.", returncode=Exit.UNREACHABLE
        )


class ClientCommand(BaseCommand):
    """A command that uses a server. ``works``: without a server, its own one performs runs."""

    requires_system_checks = ()
    works = False
    has_json = True

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        self.add_options(parser)
        if self.has_json:
            parser.add_argument("--json", action="store_true", help="print JSON")
        add_server_options(parser)

    def add_options(self, parser: ArgumentParser) -> None:
        """Adds the command's own arguments."""

    async def act(self, client: Client, options: Mapping[str, Any]) -> None:
        """Does the command's work. Errors of the client are reported by the caller."""
        raise NotImplementedError

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        from crushclient import CrushError  # noqa: PLC0415  help and errors do without

        try:
            asyncio.run(self._act(options))
        except CrushError as error:
            raise explained(error, options) from error
        except KeyboardInterrupt:
            raise SystemExit(Exit.INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output is gone: nothing can be printed, not even at exit.
            with suppress(OSError):
                sys.stdout.close()
            raise SystemExit(Exit.FAILED) from None

    async def _act(self, options: Mapping[str, Any]) -> None:
        async with connected(options, works=self.works) as client:
            await self.act(client, options)


def explained(error: CrushError, options: Mapping[str, Any]) -> CommandError:
    """The error of a command: one sentence, and the exit code that belongs to it."""
    from crushclient import ApiError, ConnectionFailed  # noqa: PLC0415  loaded by the caller

    sentence = visible(" ".join(str(error).split())).rstrip(".")
    if isinstance(error, ConnectionFailed):
        return CommandError(
            f"The server cannot be reached: {sentence}.", returncode=Exit.UNREACHABLE
        )
    if not isinstance(error, ApiError):
        return CommandError(f"{sentence}.")
    details = "".join(f" {visible(str(dict(each)))}" for each in error.errors)
    if error.status in UNAUTHORISED:
        login = chosen_login(options)
        advice = "" if login is None else f" Sign in with `{command_line(f'login {login.url}')}`."
        return CommandError(f"{sentence}.{advice}", returncode=Exit.UNAUTHORISED)
    return CommandError(f"{sentence}.{details}")


@asynccontextmanager
async def connected(
    options: Mapping[str, Any], *, works: bool = False, starts: bool = True
) -> AsyncIterator[Client]:
    """Yields a client of the chosen server. Raises ``CommandError``.

    ``starts``: without a server here, this process becomes one meanwhile.
    """
    from crushclient import Client, TlsOptions  # noqa: PLC0415  help and errors do without

    login = chosen_login(options)
    async with AsyncExitStack() as stack:
        if login is not None:
            tls = TlsOptions(ca_file=login.ca_file or None)
            client = Client(login.url, token=login.token, tls=tls)
        else:
            server = await stack.enter_async_context(_local_server(works=works, starts=starts))
            # Its address comes from our own data folder; its certificate is for its public name.
            client = Client(server.url, token=server.token, tls=TlsOptions(verify=False))
        yield await stack.enter_async_context(client)


@asynccontextmanager
async def _local_server(*, works: bool, starts: bool) -> AsyncIterator[RunningServer]:
    from crushsite.storage import ensure_data_dir, folder_lock, held_by  # noqa: PLC0415  see below

    folder = ensure_data_dir()
    loop = asyncio.get_running_loop()
    until = loop.time() + LOCK_TIMEOUT_SECONDS
    while True:
        server = await asyncio.to_thread(find_running_server, folder)
        if server is not None:
            yield server
            return
        if not starts:
            raise NoServer
        if settings.REDIS_URL:
            raise CommandError(
                f"No server runs here: start `{command_line('web')}`.", returncode=Exit.UNREACHABLE
            )
        with folder_lock(folder) as is_ours:
            if is_ours:
                async with _server_here(folder, works=works) as server:
                    yield server
                return
        # The process that holds the lock is starting or stopping.
        if loop.time() > until:
            raise CommandError(held_by(folder))
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _server_here(folder: Path, *, works: bool) -> AsyncIterator[RunningServer]:
    """The server of this process. The caller holds the folder's lock."""
    # A command that finds a server needs none of these.
    from crushsite.cli.in_process import PrivateServer  # noqa: PLC0415
    from crushsite.cli.stored_people import refuse_tools  # noqa: PLC0415
    from crushsite.logs import set_up_logging  # noqa: PLC0415
    from crushsite.process import ServerProcess, set_process  # noqa: PLC0415
    from crushsite.registration import ProcessShape  # noqa: PLC0415
    from crushsite.storage import ensure_migrated, explained_start  # noqa: PLC0415

    set_up_logging("WARNING")
    await asyncio.to_thread(refuse_tools, "act without a server")
    with progress("Preparing the database"):
        await asyncio.to_thread(ensure_migrated)
    process = ServerProcess(
        ProcessShape(works=works, serves=True, is_alone=True, is_temporary=True)
    )
    set_process(process)
    with explained_start():
        await process.start()
    private = PrivateServer(process, folder)
    try:
        private.start()
        server = await private.listening()
        if server is None:
            raise CommandError("The private socket cannot be opened.", returncode=Exit.UNREACHABLE)
        yield server
    finally:
        process.is_stopping = True
        await private.stop()
        await process.attachments.stop()
        await process.stop()
        set_process(None)
