"""A server with receivers for its messages on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio

from tests.acceptance.calling import bash, permission_request
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.notifications.receivers import Mails, Receiver

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


@dataclass
class Scene:
    server: Server
    seat: Seat
    receiver: Receiver
    mails: Mails

    async def channel(self, **fields: Any) -> dict[str, Any]:
        return await self.call("POST", "/api/notifications/channels", fields)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        async with (
            aiohttp.ClientSession() as http,
            http.request(method, self.server.url + path, json=body) as answer,
        ):
            assert answer.status < 300, (answer.status, await answer.text())
            return await answer.json() if answer.status != 204 else None

    async def notify_after(self, seconds: int) -> None:
        policy = {"notify_after_seconds": seconds, "deny_after_seconds": None}
        await self.call("PUT", f"/api/workspaces/{self.seat.workspace.id}/approval-policy", policy)

    async def waiting_call(self) -> tuple[str, dict[str, Any]]:
        """Returns a session whose run waits for a permission, and the request."""
        session = await self.seat.workspace.session()
        start = self.seat.stream.mark()
        await self.seat.workspace.prompt(session, bash("touch SECRET-ARGUMENT.txt"))
        return session, await permission_request(self.seat, session, start=start)


@pytest_asyncio.fixture
async def scene(
    make_a_server: Any, shape: Shape, connect: Connect, project: MakeProject
) -> AsyncIterator[Scene]:
    receiver, mails = Receiver(free_port()), Mails(free_port())
    await receiver.start()
    mails.start()
    env = {
        "CRUSH_NOTIFY_PRIVATE_HOSTS": f"127.0.0.1:{receiver.port}",
        "CRUSH_EMAIL_URL": f"smtp://127.0.0.1:{mails.port}?tls=off",
        "CRUSH_POLL": "0.1",
        "CRUSH_LEASE": "2",
    }
    server = make_a_server(shape, env=env)
    server.start()
    seat = await take_seat(connect(server), project("noticed"))
    yield Scene(server, seat, receiver, mails)
    mails.stop()
    await receiver.stop()
