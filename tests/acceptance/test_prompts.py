"""A prompt is one run: durable with its 202, the same when it is sent again, queued in order."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conversation import SHORT, roles_and_finishes, take_seat, text_of
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.transcripts import requests_sent, user_texts

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

ENDED_PAIR = [("user", "stop"), ("assistant", "end_turn")]


# --- accepted


async def test_a_prompt_outlives_a_kill_right_after_its_202(
    make_a_server: Callable[..., Server],
    connect: Connect,
    project: MakeProject,
    tmp_path: Path,
) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    hold = gates / "run.begun.hold"
    hold.touch()
    server = make_a_server(Shape.EMBEDDED, env={"CRUSH_GATES": str(gates)})
    server.start()
    client, path = connect(server), project()
    workspace = await client.workspace(path)
    session = await workspace.session()
    await workspace.prompt(session, f"one {SHORT}", "first")
    await workspace.prompt(session, f"two {SHORT}", "second")
    server.kill9()  # at once: not even this loop runs between the 202 and the kill
    await asyncio.to_thread(server.restart)
    # Nobody attaches: an accepted prompt needs nobody.
    feed = await NativeSse(client.http, workspace.id, after=0).open()
    hold.unlink()  # not before: with its last run's end the workspace closes
    await feed.wait_for(
        lambda e: e.type == "run.finished" and e.body["data"]["run"]["run_id"] == "second"
    )
    finished = [e.body["data"]["run"] for e in feed.received if e.type == "run.finished"]
    await feed.close()
    assert [(run["run_id"], run["outcome"]) for run in finished] == [
        ("first", "completed"),
        ("second", "completed"),
    ]
    again = await client.workspace(path)
    messages = await again.messages(session)
    assert roles_and_finishes(messages) == ENDED_PAIR * 2
    assert [text_of(m) for m in messages if m["role"] == "user"] == [
        f"one {SHORT}",
        f"two {SHORT}",
    ]
    assert (await again.get_session(session))["is_busy"] is False


async def test_the_same_run_id_is_the_same_run(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark, gate = await seat.workspace.session(), uuid.uuid4().hex, model.new_gate()
    text = f"{mark} [[n=5 gate={gate}]]"
    await asyncio.gather(*(seat.workspace.prompt(session, text, "same") for _ in range(20)))
    await model.wait_at_gate(gate)
    await seat.workspace.prompt(session, text, "same")
    assert await seat.workspace.queued(session) == 0
    model.open_gate(gate)
    await seat.stream.run_complete(session, "same")
    await asyncio.gather(*(seat.workspace.prompt(session, text, "same") for _ in range(5)))
    # Whatever those had started would come before this.
    await seat.workspace.prompt(session, SHORT, "after")
    await seat.stream.run_complete(session, "after")
    completes = [e.payload["run_id"] for e in seat.stream.of("run_complete", session)]
    assert completes == ["same", "after"]
    assert roles_and_finishes(await seat.workspace.messages(session)) == ENDED_PAIR * 2
    assert len(requests_sent(model, mark)) == 1


async def test_the_same_run_id_with_another_body_is_refused(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project())
    session, other = await seat.workspace.session(), await seat.workspace.session()
    await seat.workspace.prompt(session, SHORT, "mine")
    note = {"file_path": "a.txt", "file_name": "a.txt", "mime_type": "text/plain", "content": ""}
    for place, text, files in (
        (session, f"{SHORT} more", None),
        (other, SHORT, None),
        (session, SHORT, [note]),
    ):
        with pytest.raises(UnexpectedStatus) as refused:
            await seat.workspace.prompt(place, text, "mine", attachments=files)
        assert refused.value.status == 409
        assert "run_id" in refused.value.message
    await seat.stream.run_complete(session, "mine")
    await seat.workspace.prompt(session, "another", "mine", expect=409)
    assert roles_and_finishes(await seat.workspace.messages(session)) == ENDED_PAIR
    assert await seat.workspace.messages(other) == []
    # Another workspace has names of its own.
    elsewhere = await take_seat(client, project("elsewhere"))
    there = await elsewhere.workspace.session()
    await elsewhere.workspace.prompt(there, "another [[n=2]]", "mine")
    assert not (await elsewhere.stream.run_complete(there, "mine")).get("error")


async def test_prompts_of_unknown_workspaces_and_sessions_are_not_found(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(shared_server)
    workspace = await client.workspace(project())
    await workspace.prompt("no-such-session", "hello", expect=404)
    body = {"session_id": await workspace.session(), "prompt": "hello"}
    await client.http.call("POST", "/v1/workspaces/none/agent", body, expect=404)
    other = await client.workspace(project("other"))
    await other.prompt(body["session_id"], "hello", expect=404)


# --- queued


async def test_the_queue_is_counted_listed_and_run_in_order(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    workspace = seat.workspace
    session, gate = await workspace.session(), model.new_gate()
    queue = f"/agent/sessions/{session}/prompts"
    assert await workspace.call("GET", f"{queue}/queued") == 0
    assert await workspace.call("GET", f"{queue}/list") is None
    await workspace.prompt(session, f"[[n=2 gate={gate}]]", "running")
    await model.wait_at_gate(gate)
    texts = [f"number {n} [[n=3]]" for n in range(4)]
    for number, text in enumerate(texts):
        await workspace.prompt(session, text, f"queued-{number}")
    assert await workspace.call("GET", f"{queue}/queued") == 4
    assert await workspace.call("GET", f"{queue}/list") == texts
    model.open_gate(gate)
    await seat.stream.run_complete(session, "queued-3")
    completes = [e.payload for e in seat.stream.of("run_complete", session)]
    assert [c["run_id"] for c in completes] == ["running", *(f"queued-{n}" for n in range(4))]
    messages = await workspace.messages(session)
    assert roles_and_finishes(messages) == ENDED_PAIR * 5
    assert [text_of(m) for m in messages if m["role"] == "user"][1:] == texts
    assert [c["message_id"] for c in completes] == [
        m["id"] for m in messages if m["role"] == "assistant"
    ]
    assert await workspace.call("GET", f"{queue}/queued") == 0
    assert await workspace.call("GET", f"{queue}/list") is None


async def test_clearing_the_queue_stores_nothing_and_completes_each(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    client, path = connect(shared_server), project()
    seat, other = await take_seat(client, path), await take_seat(client, path)
    workspace = seat.workspace
    session, gate, mark = await workspace.session(), model.new_gate(), uuid.uuid4().hex
    await workspace.prompt(session, f"[[n=4 gate={gate}]]", "running")
    await model.wait_at_gate(gate)
    for run_id in ("one", None, "two"):
        await workspace.prompt(session, f"{mark} [[n=3]]", run_id)
    await other.workspace.clear_queue(session)
    assert await workspace.queued(session) == 0
    assert await workspace.call("GET", f"/agent/sessions/{session}/prompts/list") is None
    assert (await workspace.get_session(session))["is_busy"] is True
    model.open_gate(gate)
    for stream in (seat.stream, other.stream):
        running = await stream.run_complete(session, "running")
        assert len(running["text"].split()) == 4
        cleared = [e.payload for e in stream.of("run_complete", session)][:-1]
        assert [c.get("run_id") for c in cleared] == ["one", None, "two"]
        for complete in cleared:
            assert complete["cancelled"] is True
            assert complete["message_id"] == ""
            assert "error" not in complete
            assert "text" not in complete
        assert stream.errors() == []
    messages = await workspace.messages(session)
    assert roles_and_finishes(messages) == ENDED_PAIR
    assert (await workspace.get_session(session))["message_count"] == 2
    assert model.served(mark) == []
    # A cleared run has ended: its name is taken, and sending it again starts nothing.
    await workspace.prompt(session, f"{mark} [[n=3]]", "one")
    assert (await workspace.get_session(session))["is_busy"] is False


async def test_clearing_touches_neither_the_running_prompt_nor_an_idle_session(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, gate = await seat.workspace.session(), model.new_gate()
    await seat.workspace.clear_queue(session)
    await seat.workspace.prompt(session, f"[[n=3 gate={gate}]]", "only")
    await model.wait_at_gate(gate)
    await seat.workspace.clear_queue(session)
    model.open_gate(gate)
    complete = await seat.stream.run_complete(session, "only")
    assert not complete.get("cancelled")
    unknown = "/agent/sessions/no-such-session/prompts"
    for method, what in (("GET", "queued"), ("GET", "list"), ("POST", "clear")):
        await seat.workspace.call(method, f"{unknown}/{what}", expect=404)


@pytest.mark.server_env(CRUSH_MAX_RUNS="1")
async def test_a_prompt_that_waits_only_for_a_worker_is_not_queued_and_not_cleared(
    server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    """It is the next turn of its session: nothing of its session is before it."""
    seat = await take_seat(connect(server), project())
    busy, session = await seat.workspace.session(), await seat.workspace.session()
    gate = model.new_gate()
    await seat.workspace.prompt(busy, f"[[n=2 gate={gate}]]", "holds the only place")
    await model.wait_at_gate(gate)
    await seat.workspace.prompt(session, SHORT, "next")
    await seat.workspace.prompt(session, SHORT, "behind")
    assert await seat.workspace.queued(session) == 1
    await seat.workspace.clear_queue(session)
    model.open_gate(gate)
    complete = await seat.stream.run_complete(session, "next")
    assert not complete.get("cancelled")
    ends = [e.payload["run_id"] for e in seat.stream.of("run_complete", session)]
    assert ends == ["behind", "next"]


# --- several workers


@pytest.mark.server_workers(3)
@pytest.mark.server_env(CRUSH_MAX_RUNS="8")
async def test_three_workers_run_each_prompt_once_and_each_session_in_order(
    scaled_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    client = connect(scaled_server)
    seat = await take_seat(client, project())
    feed = await NativeSse(client.http, seat.workspace.id, after=0).open()
    sessions = [await seat.workspace.session() for _ in range(20)]
    gate, mark = model.new_gate(), uuid.uuid4().hex
    # Held at the gate, twenty runs need all three workers: each takes eight at most.
    await asyncio.gather(
        *(
            seat.workspace.prompt(
                session, f"{mark} {session} 0 [[n=3 gate={gate}]]", f"{session} 0"
            )
            for session in sessions
        )
    )
    await model.wait_at_gate(gate, 20)
    for place in (1, 2):
        await asyncio.gather(
            *(
                seat.workspace.prompt(
                    session, f"{mark} {session} {place} [[n=3]]", f"{session} {place}"
                )
                for session in sessions
            )
        )
    model.open_gate(gate)
    for session in sessions:
        await seat.stream.run_complete(session, f"{session} 2", 60)
        await feed.wait_for(
            lambda e, last=f"{session} 2": (
                e.type == "run.finished" and e.body["data"]["run"]["run_id"] == last
            )
        )
    for session in sessions:
        expected = [f"{session} {place}" for place in range(3)]
        completes = [e.payload for e in seat.stream.of("run_complete", session)]
        assert [c["run_id"] for c in completes] == expected
        assert roles_and_finishes(await seat.workspace.messages(session)) == ENDED_PAIR * 3
        steps = [
            (e.type, e.body["data"]["run"]["run_id"])
            for e in feed.received
            if e.type in ("run.started", "run.finished")
            and e.body["data"]["run"]["session_id"] == session
        ]
        assert steps == [
            (kind, run_id) for run_id in expected for kind in ("run.started", "run.finished")
        ]
        assert (await seat.workspace.get_session(session))["is_busy"] is False
    await feed.close()
    newest = Counter(user_texts(body)[-1].split("[")[0] for body in requests_sent(model, mark))
    assert newest == Counter(
        f"{mark} {session} {place} " for session in sessions for place in range(3)
    )
    assert seat.stream.errors() == []
    assert "Traceback" not in scaled_server.log_text()
