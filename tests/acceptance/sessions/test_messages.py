"""The messages of a session, with parts of every kind."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.attaching import PNG, attached, with_sight
from tests.acceptance.conversation import SHORT, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


async def test_user_messages_are_listed_newest_first(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project())
    one, two = await seat.workspace.session(), await seat.workspace.session()
    for number, session in enumerate((one, two, one)):
        await seat.workspace.prompt(session, f"{number} {SHORT}", f"run-{number}")
        await seat.stream.run_complete(session, f"run-{number}")

    def numbers(messages: list[dict[str, Any]]) -> list[str]:
        return [m["parts"][0]["data"]["text"][0] for m in messages]

    assert numbers(await seat.workspace.user_messages(one)) == ["2", "0"]
    assert numbers(await seat.workspace.user_messages()) == ["2", "1", "0"]


async def test_messages_equal_the_payloads_of_their_events(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project(providers=with_sight(model.base_url, sees=True))
    (path / "a.txt").write_text("alpha\n")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    image = attached("shot.png", "image/png", PNG)
    text = '[[reason=3 before=2 n=4]] [[tool=view {"file_path": "a.txt"}]]'
    await seat.workspace.prompt(session, text, "one", attachments=[image])
    await seat.stream.run_complete(session, "one")
    messages = await seat.workspace.messages(session)
    payloads = {e.payload["id"]: e.payload for e in seat.stream.of("message", session)}
    assert list(payloads.values()) == messages
    kinds = [[part["type"] for part in m["parts"]] for m in messages]
    assert kinds == [
        ["text", "binary", "finish"],
        ["reasoning", "text", "tool_call", "finish"],
        ["tool_result", "finish"],
        ["reasoning", "text", "finish"],
    ]
    reasoning, words, call, finish = (part["data"] for part in messages[1]["parts"])
    assert reasoning["thinking"] == "think0 think1 think2 "
    assert reasoning["started_at"] <= reasoning["finished_at"]
    assert words == {"text": "word0 word1 "}
    assert call["name"] == "view"
    assert call["finished"] is True
    assert json.loads(call["input"]) == {"file_path": "a.txt"}
    assert finish["reason"] == "tool_use"
    result = messages[2]["parts"][0]["data"]
    assert result["tool_call_id"] == call["id"]
    assert result["name"] == "view"
    assert result["is_error"] is False
    assert "alpha" in result["content"]
    metadata = json.loads(result["metadata"])
    assert metadata["file_path"] == str(path / "a.txt")
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert {(m["model"], m["provider"]) for m in messages if m["role"] == "assistant"} == {
        ("fake-large", "fake")
    }


STORED_PARTS = [
    {"type": "text", "data": {"text": "words"}},
    {
        "type": "reasoning",
        "data": {"thinking": "hm", "signature": "sig", "started_at": 1, "finished_at": 2},
    },
    {"type": "image_url", "data": {"url": "https://example.org/a.png", "detail": "low"}},
    {"type": "binary", "data": {"Path": "/a.png", "MIMEType": "image/png", "Data": PNG}},
    {"type": "tool_call", "data": {"id": "c1", "name": "ls", "input": "{}", "finished": True}},
    {
        "type": "tool_result",
        "data": {
            "tool_call_id": "c1",
            "name": "ls",
            "content": "x",
            "data": PNG,
            "mime_type": "image/png",
            "metadata": '{"truncated":false}',
            "is_error": True,
        },
    },
    {"type": "shell_command", "data": {"command": "true", "output": "", "exit_code": 1}},
    {
        "type": "finish",
        "data": {"reason": "error", "time": 5, "message": "short", "details": "long"},
    },
]


async def test_parts_of_every_kind_and_child_sessions_are_returned_as_stored(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    """Rows that later tools write stand in the database already; prompts go on over them."""
    path = project()
    client = connect(embedded_server)
    seat = await take_seat(client, path)
    session, child = await seat.workspace.session("parent"), "message$$call"
    await seat.workspace.prompt(session, SHORT, "one")
    await seat.stream.run_complete(session, "one")
    await asyncio.to_thread(embedded_server.stop)
    with sqlite3.connect(embedded_server.data_dir / "server.sqlite3") as database:
        database.execute(
            "UPDATE workspaces_message SET parts = ? WHERE role = 'assistant'",
            [json.dumps(STORED_PARTS)],
        )
        database.execute(
            "CREATE TEMP TABLE twin AS SELECT * FROM workspaces_session WHERE id = ?", [session]
        )
        database.execute("UPDATE twin SET id = ?, parent_session_id = ?", [child, session])
        database.execute("INSERT INTO workspaces_session SELECT * FROM twin")
    database.close()
    await asyncio.to_thread(embedded_server.start)
    again = await take_seat(client, path)
    (_, assistant) = await again.workspace.messages(session)
    assert assistant["parts"] == STORED_PARTS
    assert [s["id"] for s in await again.workspace.sessions()] == [session]
    (shown,) = await again.workspace.call("GET", f"/sessions/{session}/children")
    assert (shown["id"], shown["parent_session_id"]) == (child, session)
    assert await again.workspace.get_session(child) == shown
    assert await again.workspace.call("GET", f"/sessions/{child}/children") == []
    await again.workspace.call("GET", "/sessions/unknown/children", expect=404)
    # A model is told of all that it can be told, and answers.
    await again.workspace.prompt(session, f"go on {SHORT}", "two")
    assert "error" not in await again.stream.run_complete(session, "two")
    assert roles_and_finishes(await again.workspace.messages(session)) == [
        ("user", "stop"),
        ("assistant", "error"),
        ("user", "stop"),
        ("assistant", "end_turn"),
    ]
