"""``manage.py bridge``: a private socket file for a stock client, which leads to another server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite import runtime
from crushsite.asgi.guard import Guard
from crushsite.cli.exit_codes import Exit
from crushsite.cli.servers import ServerLogin, add_server_options, chosen_login, unauthorised
from crushsite.cli.terminal import visible
from crushsite.endpoints import EndpointError
from crushsite.logs import set_up_logging
from crushsite.server_client import UNIX, named_server, tls_context
from crushsite.storage import running_here

if TYPE_CHECKING:
    from crushsite.bridge.remote import RemoteServer

SOCKET = "crush-bridge.sock"
UNAUTHORISED = 401


class Command(BaseCommand):
    help = (
        "Lets a terminal client use a server on another machine. Listens on a private socket file"
        " and forwards to the server with your token; it resumes when the network returns."
    )
    examples = (
        "bridge --server https://crush.example.com",
        "bridge --server https://crush.example.com --host unix:///tmp/crush.sock",
    )
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--host",
            default="",
            metavar="unix://PATH",
            help=f"where to listen (default: {SOCKET} in $XDG_RUNTIME_DIR)",
        )
        add_server_options(parser)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        login = chosen_login(options)
        if login is None:
            raise CommandError(
                "Name the server with --server or CRUSH_SERVER. A server on this machine needs no"
                " bridge."
            )
        if login.url.startswith(UNIX):
            raise CommandError("A socket file needs no bridge: give its address to the client.")
        host = options["host"] or f"{UNIX}{_default_socket()}"
        if not host.startswith(UNIX):
            raise CommandError("--host must be unix://PATH: only a file can be kept private.")
        set_up_logging("WARNING")
        runtime.run(_serve(login, host))


def _default_socket() -> Path:
    folder = os.environ.get("XDG_RUNTIME_DIR", "").strip()
    return (Path(folder) if folder else Path(settings.DATA_DIR)) / SOCKET


async def _serve(login: ServerLogin, host: str) -> None:
    # Help and errors do without these.
    from crushsite.bridge.application import Bridge  # noqa: PLC0415
    from crushsite.bridge.event_stream import EventStreams  # noqa: PLC0415
    from crushsite.bridge.remote import RemoteServer  # noqa: PLC0415
    from crushsite.server.asgi_server import AsgiServer  # noqa: PLC0415

    tls = tls_context(login.ca_file) if login.url.startswith("https://") else None
    remote = RemoteServer(login.url, token=login.token, tls=tls, note=_note)
    try:
        await _check(remote)
        application = Guard(
            Bridge(remote, EventStreams(remote), servers=_servers_here, folder=settings.DATA_DIR),
            unix=True,
            max_body_bytes=settings.CRUSH_MAX_BODY_BYTES,
        )
        try:
            server = AsgiServer(
                application, endpoint=host, body_limit=settings.CRUSH_MAX_BODY_BYTES
            )
            endpoint = await server.start()
        except EndpointError as error:
            raise CommandError(str(error)) from error
        print(f"Forwarding {endpoint} to {login.url}", flush=True)
        print(f"Use it with: CRUSH_CLIENT_SERVER=1 crush --host {endpoint}", flush=True)
        try:
            await _signal()
        finally:
            await server.stop()
    finally:
        await remote.close()


def _servers_here() -> list[int]:
    named = named_server(settings.DATA_DIR)
    return [*running_here(settings.DATA_DIR), *([named.pid] if named is not None else [])]


async def _check(remote: RemoteServer) -> None:
    """Raises ``CommandError`` if the server cannot be used."""
    from crushsite.bridge.remote import Outgoing, OutOfReach  # noqa: PLC0415  the same

    try:
        async with remote.request(Outgoing("GET", "/v1/version")) as answer:
            status = answer.status
    except OutOfReach as error:
        raise CommandError(visible(str(error)), returncode=Exit.UNREACHABLE) from error
    if status == UNAUTHORISED:
        raise unauthorised(remote.url, "it does not accept the token")
    if status != 200:
        raise CommandError(
            f"{remote.url} is not a server of this program: it answered with status {status}.",
            returncode=Exit.UNREACHABLE,
        )


def _note(sentence: str) -> None:
    print(visible(sentence), file=sys.stderr, flush=True)


async def _signal() -> None:
    """Returns after SIGINT or SIGTERM."""
    requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, requested.set)
    await requested.wait()
