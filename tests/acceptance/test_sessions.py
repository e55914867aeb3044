"""What a session shows of its work: busy, clients, sums, title, messages; renamed and deleted."""

import asyncio
import json
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.attaching import PNG, attached, with_sight
from tests.acceptance.conversation import SHORT, SLOW, Seat, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import configuration
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


def with_prices(base_url: str) -> dict[str, Any]:
    providers = configuration(base_url)["providers"]
    large, small = providers["fake"]["models"]
    large |= {
        "cost_per_1m_in": 3,
        "cost_per_1m_out": 15,
        "cost_per_1m_in_cached": 3.75,
        "cost_per_1m_out_cached": 0.3,
    }
    small |= {"cost_per_1m_in": 1, "cost_per_1m_out": 2}
    return dict(providers)


async def test_usage_cost_title_and_counts_add_up_on_the_session(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project(providers=with_prices(model.base_url))
    seat = await take_seat(connect(shared_server), path)
    session, mark = await seat.workspace.session("New Session"), uuid.uuid4().hex
    # Two model calls of 100 + 20 cached tokens in and 50 out, and the title's 10 in and 3 out.
    await seat.workspace.prompt(session, f"{mark} [[tool=ls {{}}]] [[usage=100,50,20]]", "one")
    await seat.stream.run_complete(session, "one")
    large = 2 * (100 * 3 + 50 * 15 + 20 * 0.3) / 1_000_000
    small = (10 * 1 + 3 * 2) / 1_000_000

    def shows_all(event: Any) -> bool:
        shown = event.payload
        return (
            event.type == "session"
            and shown["id"] == session
            and shown["title"] == "word0 word1 word2"
            and shown["completion_tokens"] == 50
            and not shown["is_busy"]
        )

    told = (await seat.stream.wait_for(shows_all)).payload
    # A client divides the last request's tokens by the window: titles do not count.
    assert told["prompt_tokens"] == 120
    assert told["message_count"] == 4
    assert told["cost"] == pytest.approx(large + small, rel=1e-12)
    assert await seat.workspace.get_session(session) == told
    # The next prompt adds its own and leaves the title alone.
    await seat.workspace.prompt(session, f"{mark} [[n=1 usage=1000,10,0]]", "two")
    await seat.stream.run_complete(session, "two")
    after = await seat.workspace.get_session(session)
    assert (after["prompt_tokens"], after["completion_tokens"]) == (1000, 10)
    totals = await totals_of(seat, session)
    assert totals == {"total_prompt_tokens": 1250, "total_completion_tokens": 113}
    assert after["cost"] == pytest.approx(large + small + (3000 + 150) / 1_000_000, rel=1e-12)
    assert (after["title"], after["message_count"]) == ("word0 word1 word2", 6)
    titles = [entry for entry in model.served(mark) if entry["title"]]
    assert [entry["model"] for entry in titles] == ["fake-small"]


async def totals_of(seat: Seat, session: str) -> dict[str, Any]:
    """As the native interface shows them."""
    snapshot = await seat.workspace.client.http.call(
        "GET", f"/api/workspaces/{seat.workspace.id}/snapshot"
    )
    (shown,) = [s for s in snapshot["sessions"] if s["id"] == session]
    return {name: value for name, value in shown.items() if name.startswith("total_")}


async def test_after_a_summary_the_tokens_are_those_of_the_summary(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session = await seat.workspace.session("chosen")
    await seat.workspace.prompt(session, "[[n=2 usage=60000,40,0]]", "one")
    await seat.stream.run_complete(session, "one")
    before = await seat.workspace.get_session(session)
    assert (before["prompt_tokens"], before["completion_tokens"]) == (60_000, 40)
    await seat.workspace.call("POST", f"/agent/sessions/{session}/summarize")
    await seat.stream.wait_for(
        lambda e: e.type == "session" and e.payload["summary_message_id"] != ""
    )
    after = await seat.workspace.get_session(session)
    assert 0 < after["prompt_tokens"] < 1000
    assert 0 < after["completion_tokens"] < 1000
    assert await totals_of(seat, session) == {
        "total_prompt_tokens": 60_000 + after["prompt_tokens"],
        "total_completion_tokens": 40 + after["completion_tokens"],
    }


async def test_todos_are_shown_as_soon_as_they_change_and_wherever_a_session_is(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session = await seat.workspace.session()
    assert "todos" not in await seat.workspace.get_session(session)
    gate = model.new_gate()
    todos = [
        {"content": "Fix", "status": "in_progress", "active_form": "Fixing"},
        {"content": "Test", "status": "pending", "active_form": "Testing"},
    ]
    call = json.dumps({"todos": todos})
    await seat.workspace.prompt(session, f"[[tool=todos {call}]] [[gate={gate}]]", "one")
    await model.wait_at_gate(gate)
    model.open_gate(gate)
    told = await seat.stream.wait_for(
        lambda e: e.type == "session" and e.payload.get("todos") == todos
    )
    assert told.payload["is_busy"] is True
    await seat.stream.run_complete(session, "one")
    assert (await seat.workspace.get_session(session))["todos"] == todos
    assert [s["todos"] for s in await seat.workspace.sessions()] == [todos]
    snapshot = await seat.workspace.client.http.call(
        "GET", f"/api/workspaces/{seat.workspace.id}/snapshot"
    )
    assert [s["todos"] for s in snapshot["sessions"]] == [todos]
    await seat.workspace.prompt(session, '[[tool=todos {"todos": []}]]', "two")
    await seat.stream.run_complete(session, "two")
    assert "todos" not in await seat.workspace.get_session(session)


async def test_a_prompt_after_a_failed_one_gives_the_title(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
) -> None:
    seat = await take_seat(connect(shared_server), project())
    for created_as in ("New Session", "Untitled Session", "non-interactive", ""):
        session = await seat.workspace.session(created_as)
        await seat.workspace.prompt(session, "[[status=403]]", session)
        assert "error" in await seat.stream.run_complete(session, session)
        assert (await seat.workspace.get_session(session))["title"] == created_as
        await seat.workspace.prompt(session, "[[n=2]]", f"{session}-2")
        # The failed prompt is no part of this one.
        assert "error" not in await seat.stream.run_complete(session, f"{session}-2")
        shown = await seat.stream.wait_for(
            lambda e, session=session: (
                e.type == "session" and e.payload["id"] == session and "word" in e.payload["title"]
            )
        )
        assert shown.payload["title"] == "word0 word1 word2"


async def test_a_session_is_busy_from_its_202_to_its_last_end(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    workspace, gate, second = seat.workspace, model.new_gate(), model.new_gate()
    session, idle = await workspace.session(), await workspace.session()
    assert (await workspace.get_session(session))["is_busy"] is False
    assert (await workspace.agent())["is_busy"] is False
    await workspace.prompt(session, f"[[n=2 gate={gate}]]", "one")
    await workspace.prompt(session, f"[[n=2 gate={second}]]", "two")
    assert (await workspace.get_session(session))["is_busy"] is True
    assert (await workspace.agent_session(session))["is_busy"] is True
    assert (await workspace.agent())["is_busy"] is True
    assert (await workspace.get_session(idle))["is_busy"] is False
    listed = {s["id"]: s["is_busy"] for s in await workspace.sessions()}
    assert listed == {session: True, idle: False}
    model.open_gate(gate)
    await seat.stream.run_complete(session, "one")
    since = seat.stream.mark()
    assert (await workspace.get_session(session))["is_busy"] is True
    model.open_gate(second)
    await seat.stream.run_complete(session, "two")
    assert (await workspace.get_session(session))["is_busy"] is False
    assert (await workspace.agent())["is_busy"] is False
    await seat.stream.wait_for(
        lambda e: e.type == "session" and e.payload["id"] == session and not e.payload["is_busy"],
        start=since,
    )
    told = [e.payload["is_busy"] for e in seat.stream.of("session") if e.payload["id"] == session]
    changes = [now for before, now in zip([None, *told], told, strict=False) if before != now]
    assert changes == [False, True, False]


async def test_attached_clients_are_those_whose_current_session_it_is(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(shared_server), project()
    a, b = await take_seat(client, path), await take_seat(client, path)
    session, other = await a.workspace.session(), await a.workspace.session()

    async def counted() -> tuple[int, int]:
        shown = [await a.workspace.get_session(s) for s in (session, other)]
        return shown[0]["attached_clients"], shown[1]["attached_clients"]

    await a.workspace.set_current(session)
    await b.workspace.set_current(session)
    assert await counted() == (2, 0)
    await b.workspace.set_current(other)
    assert await counted() == (1, 1)
    await b.workspace.set_current("")
    assert await counted() == (1, 0)
    await b.workspace.set_current(session)
    await b.workspace.release()
    await a.stream.wait_for(
        lambda e: (
            e.type == "session"
            and e.payload["id"] == session
            and e.payload["attached_clients"] == 1
        ),
        start=next(
            n
            for n, e in enumerate(a.stream.events)
            if e.type == "session" and e.payload["attached_clients"] == 2
        ),
    )
    assert await counted() == (1, 0)
    detached = await client.workspace(path)
    await detached.set_current(session, expect=409)


async def test_a_rename_takes_the_title_alone(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    workspace, gate, mark = seat.workspace, model.new_gate(), uuid.uuid4().hex
    session = await workspace.session("before")
    stale = await workspace.get_session(session)
    await workspace.prompt(session, f"{mark} [[n=2 gate={gate} usage=7,8,0]]", "one")
    await model.wait_at_gate(gate)
    lies = {"cost": 99.5, "message_count": 77, "is_busy": False, "prompt_tokens": 1_000_000}
    body = {**stale, **lies, "parent_session_id": "nobody", "title": "after"}
    renamed = await workspace.call("PUT", f"/sessions/{session}", body)
    assert renamed["title"] == "after"
    assert renamed["is_busy"] is True
    assert renamed["parent_session_id"] == ""
    model.open_gate(gate)
    await seat.stream.run_complete(session, "one")
    shown = await workspace.get_session(session)
    assert shown["title"] == "after"
    assert (shown["prompt_tokens"], shown["completion_tokens"]) == (7, 8)
    # A person chose both titles, so the small model received no request.
    assert not [entry for entry in model.served(mark) if entry["title"]]
    assert (shown["cost"], shown["message_count"]) == (0, 2)
    await workspace.call("PUT", "/sessions/unknown", body, expect=404)


async def test_a_session_that_is_deleted_while_it_runs_is_cancelled_first(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    client, path = connect(shared_server), project()
    seat, other = await take_seat(client, path), await take_seat(client, path)
    workspace, mark = seat.workspace, uuid.uuid4().hex
    session, kept = await workspace.session(), await workspace.session()
    await workspace.prompt(session, SLOW, "one")
    await workspace.prompt(session, f"{mark} {SHORT}", "two")
    await seat.stream.words(session, 3)
    await workspace.delete_session(session)
    # Gone for requests at once, whatever is still being ended.
    await workspace.get_session(session, expect=404)
    await workspace.prompt(session, SHORT, "three", expect=404)
    assert [s["id"] for s in await workspace.sessions()] == [kept]
    for stream in (seat.stream, other.stream):
        gone = await stream.wait_for(lambda e: e.type == "session" and e.action == "deleted")
        assert gone.payload["id"] == session
        events = stream.events[: stream.events.index(gone) + 1]
        ends = [
            (e.type, e.payload.get("run_id") or e.finish)
            for e in events
            if (e.type == "message" and e.finish == "canceled") or e.type == "run_complete"
        ]
        assert ends == [
            ("message", "canceled"),
            ("run_complete", "one"),
            ("message", "canceled"),
            ("run_complete", "two"),
        ]
        completes = [e.payload for e in events if e.type == "run_complete"]
        assert all(c["cancelled"] is True for c in completes)
        assert stream.errors() == []
        assert len([e for e in stream.events if e.type == "session" and e.action == "deleted"]) == 1
    await workspace.call("GET", f"/sessions/{session}/messages", expect=404)
    assert await workspace.user_messages() == []
    assert (await workspace.agent())["is_busy"] is False
    assert model.served(mark) == []
    # Nothing of it comes later.
    await workspace.prompt(kept, SHORT, "four")
    await seat.stream.run_complete(kept, "four")
    last = max(
        n for n, e in enumerate(seat.stream.events) if session in (e.session, e.payload.get("id"))
    )
    assert seat.stream.events[last].action == "deleted"


async def test_an_idle_session_is_deleted_with_its_messages(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, SHORT, "one")
    await seat.stream.run_complete(session, "one")
    await seat.workspace.delete_session(session)
    await seat.stream.wait_for(lambda e: e.type == "session" and e.action == "deleted")
    await seat.workspace.get_session(session, expect=404)
    await seat.workspace.call("DELETE", f"/sessions/{session}", expect=404)
    assert await seat.workspace.user_messages() == []


async def test_user_messages_come_newest_first(
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


# --- messages


async def test_messages_hold_what_their_events_told(
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
    told = {e.payload["id"]: e.payload for e in seat.stream.of("message", session)}
    assert list(told.values()) == messages
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


async def test_every_kind_of_part_and_child_sessions_are_shown_as_they_are_stored(
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
