"""The generated operations against a real server: a session from its beginning to its end."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from crushclient import Client, InvalidRequestError, NotFoundError
from tests.acceptance.harness.shapes import Server

MakeProject = Callable[..., Path]


async def test_a_session_by_operations_and_a_stream(
    shared_server: Server, project: MakeProject
) -> None:
    async with Client(shared_server.url) as client:
        api = client.api
        workspace = await client.open_workspace(project())
        assert (await api.workspaces.get(workspace.id))["path"] == workspace.path
        created = await api.sessions.create(workspace.id, title="one")
        session_id = created["id"]
        async with client.follow(
            workspace.id, session_id, client_id=workspace.client_id, path=workspace.path
        ) as session:
            accepted = await api.sessions.prompt(
                workspace.id, session_id, text="[[n=5 id=word]]", idempotency_key="the-first"
            )
            again = await api.sessions.prompt(
                workspace.id, session_id, text="[[n=5 id=word]]", idempotency_key="the-first"
            )
            assert again["key"] == accepted["key"]
            async with asyncio.timeout(60):
                await session.wait_until(
                    lambda state: state.runs.get(accepted["key"], {}).get("state") == "finished"
                )
            assert session.messages[-1].text.split() == [f"word-{n}" for n in range(5)]
            shown = await api.sessions.get_messages(workspace.id, session_id)
            assert [message["id"] for message in shown["items"]] == [
                message.id for message in session.messages
            ]
            await api.sessions.update(workspace.id, session_id, title="two")
            await session.wait_until(
                lambda s: s.session is not None and s.session["title"] == "two"
            )
        for number in range(4):
            await api.sessions.create(workspace.id, title=f"more {number}")
        page = await api.sessions.list(workspace.id, limit=2)
        assert (len(page["items"]), page["next"] is None) == (2, False)
        titles = [each["title"] async for each in api.sessions.iterate(workspace.id, limit=2)]
        assert sorted(titles) == ["more 0", "more 1", "more 2", "more 3", "two"]
        await api.sessions.delete(workspace.id, session_id)
        with pytest.raises(NotFoundError) as caught:
            await api.sessions.get(workspace.id, session_id)
        assert caught.value.code == "session_unknown"
        with pytest.raises(InvalidRequestError) as wrong:
            await api.sessions.list(workspace.id, limit=-1)
        assert [each["field"] for each in wrong.value.errors] == ["limit"]
