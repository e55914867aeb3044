"""Whether a session is busy, who is attached to it, its title and its deletion."""

import uuid
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.conversation import SHORT, SLOW, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


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


async def test_a_session_is_busy_from_the_202_to_the_end_of_its_last_run(
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
    busy = [e.payload["is_busy"] for e in seat.stream.of("session") if e.payload["id"] == session]
    changes = [now for before, now in zip([None, *busy], busy, strict=False) if before != now]
    assert changes == [False, True, False]


async def test_attached_clients_are_the_clients_with_this_current_session(
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


async def test_a_rename_changes_only_the_title(
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
        deleted = await stream.wait_for(lambda e: e.type == "session" and e.action == "deleted")
        assert deleted.payload["id"] == session
        events = stream.events[: stream.events.index(deleted) + 1]
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
