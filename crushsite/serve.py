"""A server from its arguments to its end: address, loop, sockets, signals.

The ``serve`` and ``web`` commands share it. Prints one line when it listens and one when it ends.
"""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError

from agents.jobs.host import job_host
from crushsite import runtime
from crushsite.data_folder import remove_server_file, write_server_file
from crushsite.database import explained_start
from crushsite.endpoints import EndpointError
from crushsite.logs import set_up_logging
from crushsite.process import ProcessShape, ServerProcess, set_process
from crushsite.runtime import return_large_blocks
from crushsite.shutdown import StopRequest

DEFAULT_HOST = "tcp://127.0.0.1:22787"  # not registered by anybody


def check_host(host: str) -> None:
    """Only loopback while there are no accounts."""
    if host.startswith("unix://"):
        return
    if not host.startswith("tcp://"):
        raise CommandError("--host must be tcp://HOST:PORT or unix://PATH.")
    name = host.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if name == "localhost":
        return
    try:
        is_loopback = ipaddress.ip_address(name).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise CommandError(
            f"{name or host!r} is not a loopback address. The server has no accounts, so anyone "
            "who reaches it can run commands as you: use 127.0.0.1 or a unix:// socket."
        )


def run_server(host: str, shape: ProcessShape, *, folder: Path) -> None:
    """Serves until SIGTERM or SIGINT."""
    set_up_logging(settings.CRUSH_LOG_LEVEL)
    return_large_blocks()
    sys.setswitchinterval(0.001)  # the writer's thread gives the loop its turn back soon
    runtime.run(_serve(host, shape, folder=folder))


async def _serve(host: str, shape: ProcessShape, *, folder: Path) -> None:
    from crushsite.asgi.routing import Router, guarded  # noqa: PLC0415  after Django is set up
    from crushsite.server.asgi_server import AsgiServer  # noqa: PLC0415  other commands do without

    stop = StopRequest()
    stop.listen()
    process = ServerProcess(shape, on_exit=stop.requested.set)
    set_process(process)
    router = Router(process)
    try:
        server = AsgiServer(
            guarded(router, unix=host.startswith("unix://")),
            endpoints=[host],
            body_limit=settings.CRUSH_MAX_BODY_BYTES,
            bodies_limit=settings.CRUSH_MAX_BODIES_BYTES,
        )
    except EndpointError as error:
        raise CommandError(str(error)) from error
    with explained_start():
        await process.start()
    try:
        try:
            (endpoint,) = await server.start()
        except EndpointError as error:
            raise CommandError(str(error)) from error
        address = _url_of(str(endpoint))
        with explained_start():
            write_server_file(folder, address)
        print(f"Serving on {address} (data in {folder})", flush=True)  # noqa: T201  for who started it
        await stop.requested.wait()
        stop.announce(process.waits_for(), seconds=settings.CRUSH_DRAIN_SECONDS)
        # Streams stay open meanwhile: readers see how their runs come to an end.
        await process.drain(seconds=settings.CRUSH_DRAIN_SECONDS, hurried=stop.hurried)
    finally:
        stop.begin_end()
        process.is_stopping = True
        await server.stop()
        await job_host().end_users_commands()  # requests wait for them
        await router.api.finish()
        await process.attachments.stop()
        await process.stop()
        set_process(None)
        remove_server_file(folder)
    print("Stopped", flush=True)  # noqa: T201  for who started it


def _url_of(endpoint: str) -> str:
    return endpoint.replace("tcp://", "http://", 1)
