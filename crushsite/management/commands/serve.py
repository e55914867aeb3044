"""``manage.py serve``: the embedded shape, everything in one process.

``run_server`` runs a server from start to stop, for `serve`, `web` and `runserver`: address, loop,
sockets, signals. It prints one line when it listens and one when it ends.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.config.providers.built_in import is_installed
from agents.jobs.host import job_host
from crushsite import runtime
from crushsite.cli.stored_people import browser_url, login_link, qr_code
from crushsite.endpoints import EndpointError
from crushsite.exposure import (
    check_host,
    ensure_local_token,
    names_of,
    require_sign_in,
    tls_context,
)
from crushsite.logs import set_up_logging
from crushsite.process import ServerProcess, set_process
from crushsite.program_name import command_line
from crushsite.registration import ProcessShape
from crushsite.runtime import StopRequest, return_large_blocks, shorten_turns_of_threads
from crushsite.storage import (
    COMMAND_SECONDS,
    ensure_data_dir,
    ensure_migrated,
    explained_start,
    remove_server_file,
    sole_server,
    write_server_file,
)
from people.actions.login_links import create_login_link
from people.identities import ensure_owner
from workspaces.log.writer import writer

DEFAULT_HOST = "tcp://127.0.0.1:22787"  # registered for no other service


class Command(BaseCommand):
    help = "Serves clients and runs their agents in this one process, on SQLite or PostgreSQL."
    requires_system_checks = ()  # to start fast; `check` and `doctor` run them

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--host",
            default=DEFAULT_HOST,
            help="tcp://HOST:PORT (loopback; port 0 takes a free one) or unix://PATH",
        )
        parser.add_argument(
            "--idle-exit",
            action="store_true",
            help="stop when no workspace has been open for CRUSH_SERVER_IDLE_TIMEOUT seconds",
        )
        parser.add_argument(
            "--local-model",
            action="store_true",
            help="use a small model in this process if no other is configured; "
            "bin/serve installs it",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if settings.REDIS_URL:
            raise CommandError(
                f"REDIS_URL is set, which is for several processes. Run `{command_line('web')}` and "
                f"`{command_line('runworker')}`, or unset it."
            )
        if options["local_model"]:
            if not is_installed():
                raise CommandError(
                    "The local model is not installed. Start with `bin/serve --local-model`."
                )
            os.environ["CRUSH_LOCAL_MODEL"] = "1"
        check_host(options["host"])
        folder = ensure_data_dir()
        with sole_server(folder, wait_seconds=COMMAND_SECONDS):
            ensure_migrated()
            require_sign_in(options["host"])
            ensure_local_token(folder)
            shape = ProcessShape(
                works=True, serves=True, is_alone=True, exits_idle=options["idle_exit"]
            )
            run_server(options["host"], shape, folder=folder)


def run_server(host: str, shape: ProcessShape, *, folder: Path) -> None:
    """Serves until SIGTERM or SIGINT."""
    set_up_logging(settings.CRUSH_LOG_LEVEL, form=settings.CRUSH_LOG_FORMAT)
    return_large_blocks()
    shorten_turns_of_threads()
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
            guarded(router, unix=host.startswith("unix://"), names=names_of(host)),
            endpoint=host,
            tls=tls_context(),
            body_limit=settings.CRUSH_MAX_BODY_BYTES,
            bodies_limit=settings.CRUSH_MAX_BODIES_BYTES,
        )
    except EndpointError as error:
        raise CommandError(str(error)) from error
    with explained_start():
        await process.start()
    try:
        try:
            endpoint = await server.start()
        except EndpointError as error:
            raise CommandError(str(error)) from error
        address = _url_of(str(endpoint), is_encrypted=bool(settings.CRUSH_TLS_CERTIFICATE))
        with explained_start():
            write_server_file(folder, address)
        print(f"Serving on {address} (data in {folder})", flush=True)
        await _print_login_link(address)
        await stop.requested.wait()
        stop.announce(process.waits_for(), seconds=settings.CRUSH_DRAIN_SECONDS)
        # Streams stay open meanwhile, so that readers see their runs end.
        await process.drain(seconds=settings.CRUSH_DRAIN_SECONDS, hurried=stop.hurried)
    finally:
        stop.begin_end()
        process.is_stopping = True
        await server.stop()
        await job_host().stop_users_commands()  # requests wait for them
        await router.finish()
        await process.attachments.stop()
        await process.stop()
        set_process(None)
        remove_server_file(folder)
    print("Stopped", flush=True)


async def _print_login_link(address: str) -> None:
    base = browser_url(address)
    if base is None:
        return  # a socket file, which browsers cannot open
    secret = await writer.write("", lambda _: create_login_link(ensure_owner()))
    link = login_link(base, secret)
    print(f"To sign in, open {link} (once, within ten minutes)", flush=True)
    if sys.stdout.isatty():
        print(qr_code(link), end="", flush=True)


def _url_of(endpoint: str, *, is_encrypted: bool) -> str:
    """Where this machine reaches the server."""
    for every, this_machine in (("//0.0.0.0:", "//127.0.0.1:"), ("//[::]:", "//[::1]:")):
        endpoint = endpoint.replace(every, this_machine, 1)
    return endpoint.replace("tcp://", "https://" if is_encrypted else "http://", 1)
