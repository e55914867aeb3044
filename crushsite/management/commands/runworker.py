"""``manage.py runworker``: performs runs, together with other workers."""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from channels.consumer import AsyncConsumer
from channels.layers import get_channel_layer  # noqa: TID251  a worker listens itself
from channels.worker import Worker
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.runs.nudges import CHANNEL, GROUP
from agents.runs.pool import RunPool
from crushsite import runtime
from crushsite.asgi.forwarded import ForwardedRequests
from crushsite.endpoints import EndpointError
from crushsite.exposure import check_host, names_of, tls_context
from crushsite.logs import set_up_logging
from crushsite.process import ServerProcess, set_process
from crushsite.registration import ProcessShape
from crushsite.runtime import StopRequest, return_large_blocks
from crushsite.storage import (
    ensure_data_dir,
    explained_start,
    require_migrated,
    require_scaled_settings,
)
from workspaces.tasks import cancel_within

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Performs accepted runs until SIGTERM, then hands them over at their next step."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("channels", nargs="*", default=[CHANNEL], help="channels to listen on")
        parser.add_argument(
            "--host",
            default="",
            help="tcp://HOST:PORT or unix://PATH, for /healthz, /readyz and /metrics",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        require_scaled_settings()
        if options["host"]:
            check_host(options["host"])
        ensure_data_dir()
        require_migrated()
        set_up_logging(settings.CRUSH_LOG_LEVEL, form=settings.CRUSH_LOG_FORMAT)
        return_large_blocks()
        runtime.run(_work(options["channels"], options["host"]))


async def _work(channels: list[str], host: str) -> None:
    stop = StopRequest()
    stop.listen()
    process = ServerProcess(ProcessShape(works=True, serves=False, is_alone=False))
    set_process(process)
    with explained_start():
        await process.start()
    forwarded = ForwardedRequests(lambda: process.registration.id, process.pool.homes)
    await forwarded.start()
    listening = asyncio.create_task(_listen(process, channels, stop.requested))
    async with _monitored(process, host):
        print(f"Working as {process.instance_id}", flush=True)
        await stop.requested.wait()
        stop.announce(process.waits_for(), seconds=settings.CRUSH_DRAIN_SECONDS)
        await process.drain(seconds=settings.CRUSH_DRAIN_SECONDS, hurried=stop.hurried)
        stop.begin_end()
    await cancel_within([listening], seconds=1.0)
    await forwarded.stop()
    await process.stop()
    set_process(None)
    print("Stopped", flush=True)


@asynccontextmanager
async def _monitored(process: ServerProcess, host: str) -> AsyncIterator[None]:
    """Answers about this process at the address, if there is one. Raises ``CommandError``."""
    if not host:
        yield
        return
    from crushsite.asgi.monitoring import only_monitoring  # noqa: PLC0415  most workers do without
    from crushsite.asgi.routing import guarded  # noqa: PLC0415  the same
    from crushsite.server.asgi_server import AsgiServer  # noqa: PLC0415  the same

    application = guarded(
        only_monitoring(process), unix=host.startswith("unix://"), names=names_of(host)
    )
    try:
        server = AsgiServer(application, endpoint=host, tls=tls_context())
        endpoint = await server.start()
    except EndpointError as error:
        raise CommandError(str(error)) from error
    print(f"Monitored on {endpoint}", flush=True)
    try:
        yield
    finally:
        await server.stop()


NUDGES = ("run.accepted", "run.cancelled")


class NudgeConsumer(AsyncConsumer):
    """Passes nudges from the channel layer on to the worker of this process."""

    def __init__(self, *, pool: RunPool) -> None:
        self.pool = pool

    @override
    async def dispatch(self, message: dict[str, Any]) -> None:
        """Ignores the nudges of later releases.

        Channels' own visits a thread for each message, to close old connections to the database
        (`python -m tests.bench.bypasses nudges`).
        """
        if message["type"] in NUDGES:
            self.pool.receive_nudge(message)


async def _listen(process: ServerProcess, channels: list[str], stopping: asyncio.Event) -> None:
    """Receives nudges, which only save time: without the layer the pool polls."""
    layer = get_channel_layer()
    if layer is None:
        return
    consumer = NudgeConsumer.as_asgi(pool=process.pool)
    while not stopping.is_set():
        try:
            # A group takes only channels that exist in this process already.
            own = await layer.new_channel()
            await layer.group_add(GROUP, own)
            await Worker(consumer, [own, *channels], layer).handle()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  Redis may come back
            logger.warning("the channel layer failed; the next attempt is in 1 s: %s", error)
            await asyncio.sleep(1.0)
