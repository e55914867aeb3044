"""The streams behind the real server on a free port, over a real database file."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
import pytest_asyncio
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path

from crushsite.server.asgi_server import AsgiServer
from workspaces.access import CALLER, OWNER, Actor, Caller, Right
from workspaces.actions.workspaces import Opening, close_workspace, open_workspace
from workspaces.delivery.attachments import Attachments, StreamRights
from workspaces.delivery.http_stream import NativeSse
from workspaces.delivery.hub import Hub
from workspaces.delivery.native_socket import Command, NativeSocket
from workspaces.delivery.v1_events import V1Events
from workspaces.log.errors import BadField
from workspaces.log.reader import read, stop_reading
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.models import ClientClaim

CLIENT = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"


@pytest_asyncio.fixture
async def hub(database: str) -> AsyncIterator[Hub]:
    hub = Hub()
    await hub.start()
    yield hub
    await hub.stop()


@dataclass
class Site:
    hub: Hub
    attachments: Attachments
    server: AsgiServer
    session: aiohttp.ClientSession
    workspace_id: str
    application: Any = None
    port: int = 0
    pending: bytes = b""
    detached: "asyncio.Queue[tuple[str, float]]" = field(default_factory=asyncio.Queue)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def v1(self, client_id: str = CLIENT) -> str:
        return f"{self.url}/v1/workspaces/{self.workspace_id}/events?client_id={client_id}"

    def native(self, query: str = "") -> str:
        return f"{self.url}/api/workspaces/{self.workspace_id}/events?{query}"

    def socket(self, query: str = "", *, workspace_id: str = "") -> str:
        place = workspace_id or self.workspace_id
        return f"ws://127.0.0.1:{self.port}/api/workspaces/{place}/stream?{query}"

    async def write(self, job: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await writer.write(
            self.workspace_id, lambda tx: job(tx, self.workspace_id, *args, **kwargs)
        )

    async def tell(self, *, size: int = 0) -> int:
        """One more event of the log, with some weight."""

        def job(tx: Any, workspace_id: str) -> int:
            facts = {"workspace_id": workspace_id, "weight": "x" * size}
            return tx.append(workspace_id, Kind.CONFIG_CHANGED, facts)

        return await self.write(job)

    async def close_workspace(self) -> None:
        await self.write(close_workspace)

    async def claims(self) -> dict[str, bool]:
        def query() -> dict[str, bool]:
            return dict(ClientClaim.objects.values_list("client_id", "is_streaming"))

        return await read(query)


async def _echo(workspace_id: str, body: Mapping[str, Any], actor: Actor) -> Mapping[str, Any]:
    return {"said": body.get("say")}


async def _refuse(workspace_id: str, body: Mapping[str, Any], actor: Actor) -> None:
    raise BadField("say: is not wanted")


async def _fail(workspace_id: str, body: Mapping[str, Any], actor: Actor) -> None:
    raise ValueError("a secret of the server")


COMMANDS = {
    "echo": Command(Right.PROMPT, _echo),
    "refuse": Command(Right.PROMPT, _refuse),
    "fail": Command(Right.PROMPT, _fail),
}


class Edge:
    """Identifies each request as the test wants; at first as the owner's."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.caller = Caller(OWNER)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope | {CALLER: self.caller}, receive, send)


@pytest_asyncio.fixture
async def site(transactional_db: None, tmp_path: Any) -> AsyncIterator[Site]:
    hub = Hub()
    writer.start(publish=hub.publish, loop=asyncio.get_running_loop())
    await hub.start()
    opening = Opening(path=str(tmp_path), data_dir=str(tmp_path / ".crush"))
    workspace = await writer.write("", partial(open_workspace, opening=opening))
    detached: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
    attachments = Attachments(
        "this-process",
        writer,
        detach_grace_seconds=7.0,
        on_detached=lambda workspace_id, grace: detached.put_nowait((workspace_id, grace)),
    )

    async def replay(workspace_id: str) -> bytes:
        return site.pending

    given = {"hub": hub, "attachments": attachments, "rights": StreamRights()}
    http = URLRouter(
        [
            path(
                "v1/workspaces/<str:workspace_id>/events", V1Events.as_asgi(**given, replay=replay)
            ),
            path("api/workspaces/<str:workspace_id>/events", NativeSse.as_asgi(**given)),
        ]
    )
    sockets = URLRouter(
        [
            path(
                "api/workspaces/<str:workspace_id>/stream",
                NativeSocket.as_asgi(**given, commands=COMMANDS, command_limit=100_000),
            )
        ]
    )
    application = Edge(ProtocolTypeRouter({"http": http, "websocket": sockets}))
    server = AsgiServer(application, endpoint="tcp://127.0.0.1:0")
    endpoint = await server.start()
    async with aiohttp.ClientSession() as session:
        site = Site(hub, attachments, server, session, workspace.pk, application)
        site.port, site.detached = endpoint.port, detached
        yield site
    await server.stop(grace_seconds=1.0)
    await attachments.stop()
    await hub.stop()
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)
