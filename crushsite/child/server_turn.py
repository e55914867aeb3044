"""The executor behind the server's own route: turns of this server, in one folder.

Each assignment is a session that every client of the workspace sees; its model,
tools and permissions are the workspace's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from django.conf import settings

from agents.fleet.child.consumer import Entrance
from agents.fleet.child.conversation import RunCounts
from agents.fleet.child.executor import RunExecutor
from agents.fleet.child.script import EchoExecutor, ScriptExecutor
from agents.fleet.child.turn import TurnExecutor
from agents.fleet.child.turn_host import TurnRules
from agents.fleet.wire.frames import RunFrame
from agents.runs import teardown
from crushsite.process import ServerProcess
from workspaces.access import OWNER, Caller
from workspaces.api.bodies import checked
from workspaces.api.workspaces import OpeningForm, open_for_client
from workspaces.delivery.readers import Wire
from workspaces.delivery.subscribe import stream_native
from workspaces.log.errors import Refusal
from workspaces.log.ids import new_id


def entrance_of(server: ServerProcess) -> Entrance:
    """Builds the entrance from the settings; it admits no parent if they are incomplete."""
    counts = RunCounts()
    executor: RunExecutor | None = None
    match settings.CRUSH_FLEET_EXECUTOR:
        case "echo":
            executor = EchoExecutor()
        case "script":
            executor = ScriptExecutor(counts)
        case "crush" if settings.CRUSH_FLEET_WORKSPACE:
            executor = TurnExecutor(_ServerTurnHost(server, settings.CRUSH_FLEET_WORKSPACE))
        case _:
            pass
    return Entrance(settings.CRUSH_FLEET_TOKEN, executor, counts)


class _ServerTurnHost:
    def __init__(self, server: ServerProcess, path: str) -> None:
        self._server = server
        self._path = path
        self.parent_session_id = ""
        self.rules = TurnRules()

    @asynccontextmanager
    async def working(self, _session_id: str, _run: RunFrame) -> AsyncIterator[str]:
        """Keeps the workspace open, as its client, while the assignment lasts."""
        client_id = new_id()
        form: dict[str, Any] = {"path": self._path, "client_id": client_id}
        workspace_id = await open_for_client(checked(OpeningForm, form), Caller(OWNER))
        attachments = self._server.attachments
        attachment = await attachments.attach(workspace_id, client_id, close=lambda: None)
        try:
            yield workspace_id
        finally:
            attachments.detach(attachment)
            with suppress(Refusal):
                await teardown.release(workspace_id, client_id)

    def feed(self, workspace_id: str, after: int | None) -> AsyncIterator[bytes]:
        return stream_native(self._server.hub, workspace_id, after=after, wire=Wire.WS)
