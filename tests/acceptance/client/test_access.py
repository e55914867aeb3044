"""A stream whose token is revoked ends, and says why."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from crushclient import AuthenticationError, Client, LogEvent, NotAllowedError, StreamLive
from crushclient.stream import Protocol
from tests.acceptance.client.reading import client_of
from tests.acceptance.harness.shapes import Server

MakeProject = Callable[..., Path]
PROTOCOLS: tuple[Protocol, ...] = ("websocket", "sse")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_revoked_token_ends_the_stream_for_good(
    shared_server: Server, project: MakeProject, protocol: Protocol
) -> None:
    async with Client(shared_server.url) as owner:
        workspace = await owner.open_workspace(project())
        made = await owner.api.tokens.create(
            name="reader", scopes=["read"], workspaces=[workspace.id]
        )
        async with (
            client_of(shared_server.url, token=made["token"]) as reader,
            reader.stream(workspace.id, protocol=protocol) as stream,
            asyncio.timeout(60),
        ):
            assert isinstance(await anext(stream), StreamLive)
            session = await owner.api.sessions.create(workspace.id, title="seen")
            item = await anext(stream)
            assert isinstance(item, LogEvent)
            assert item.data["session"]["id"] == session["id"]
            with pytest.raises(NotAllowedError):
                await reader.api.sessions.create(workspace.id, title="no")
            await owner.api.tokens.delete(made["id"])
            with pytest.raises(AuthenticationError):
                [seen async for seen in stream]
            with pytest.raises(AuthenticationError):
                await reader.api.sessions.list(workspace.id)
