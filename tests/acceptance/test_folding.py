"""Prompts without a `run_id` join the running turn at its next step, or wait for a turn together."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conversation import roles_and_finishes, take_seat, text_of
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.acceptance.transcripts import BlockedTool, requests_sent, roles, tool_answers, user_texts

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

ENDED_PAIR = [("user", "stop"), ("assistant", "end_turn")]


def texts_of_user(messages: list[dict[str, object]]) -> list[str]:
    return [text_of(message) for message in messages if message["role"] == "user"]


@pytest.mark.parametrize("run_id", ["named", None])
async def test_they_join_after_the_results_of_the_tool_that_runs(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
    run_id: str | None,
) -> None:
    path = project()
    seat = await take_seat(connect(shared_server), path, yolo=True)
    workspace, blocked, mark = seat.workspace, BlockedTool(path), uuid.uuid4().hex
    session = await workspace.session()
    first = f"{mark} {blocked.script} [[n=9]]"
    await workspace.prompt(session, first, run_id)
    await blocked.wait()
    joining = [f"{mark} joins", f"{mark} joins too [[n=4]]"]
    for text in joining:
        await workspace.prompt(session, text)
    assert await workspace.queued(session) == 2
    assert await workspace.queue(session) == joining
    blocked.release()
    complete = await seat.stream.run_complete(session)
    assert await workspace.queued(session) == 0
    # The next model call had the tool's result first, then the words that joined.
    before, after = requests_sent(model, mark)
    assert roles(before) == ["user"]
    assert roles(after) == ["user", "assistant", "tool", "user"]
    assert user_texts(after) == [first, "\n\n".join(joining)]
    messages = await workspace.messages(session)
    assert roles_and_finishes(messages) == [
        ("user", "stop"),
        ("assistant", "tool_use"),
        ("tool", "stop"),
        ("user", "stop"),
        ("user", "stop"),
        ("assistant", "end_turn"),
    ]
    assert texts_of_user(messages) == [first, *joining]
    assert complete.get("run_id") == run_id
    assert complete["message_id"] == messages[-1]["id"]
    assert len(complete["text"].split()) == 4
    # Those that joined have no end of their own: the next one is the next prompt's.
    await workspace.prompt(session, "[[n=1]]", "last")
    await seat.stream.run_complete(session, "last")
    completes = [e.payload.get("run_id") for e in seat.stream.of("run_complete", session)]
    assert completes == [run_id, "last"]


async def test_they_join_a_turn_that_waits_for_its_model(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, gate, mark = await seat.workspace.session(), model.new_gate(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} [[gate={gate}]] [[tool=ls {{}}]] [[n=9]]", "one")
    await model.wait_at_gate(gate)
    await seat.workspace.prompt(session, f"{mark} joins [[n=2]]")
    model.open_gate(gate)
    complete = await seat.stream.run_complete(session, "one")
    assert len(complete["text"].split()) == 2
    bodies = requests_sent(model, mark)
    assert [roles(body) for body in bodies] == [
        ["user"],
        ["user", "assistant", "tool", "user"],
    ]
    assert len(tool_answers(bodies[1])) == 1


async def test_joining_overtakes_queued_prompts_that_have_a_run_id(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(shared_server), path, yolo=True)
    workspace, blocked = seat.workspace, BlockedTool(path)
    session = await workspace.session()
    await workspace.prompt(session, blocked.script, "first")
    await blocked.wait()
    await workspace.prompt(session, "waits [[n=2]]", "second")
    await workspace.prompt(session, "overtakes [[n=3]]")
    assert await workspace.queue(session) == ["waits [[n=2]]", "overtakes [[n=3]]"]
    blocked.release()
    await seat.stream.run_complete(session, "second")
    messages = await workspace.messages(session)
    assert texts_of_user(messages) == [blocked.script, "overtakes [[n=3]]", "waits [[n=2]]"]
    assert roles_and_finishes(messages)[-2:] == ENDED_PAIR
    completes = [e.payload for e in seat.stream.of("run_complete", session)]
    assert [c.get("run_id") for c in completes] == ["first", "second"]
    assert [len(c["text"].split()) for c in completes] == [3, 2]


async def test_without_a_next_step_they_become_one_turn_of_their_own(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    workspace, gate, mark = seat.workspace, model.new_gate(), uuid.uuid4().hex
    session = await workspace.session()
    await workspace.prompt(session, f"[[n=2 gate={gate}]]", "first")
    await model.wait_at_gate(gate)
    await workspace.prompt(session, f"{mark} a")
    await workspace.prompt(session, "named [[n=3]]", "second")
    await workspace.prompt(session, f"{mark} b [[n=4]]")
    model.open_gate(gate)
    await seat.stream.run_complete(session, "second")
    completes = [e.payload for e in seat.stream.of("run_complete", session)]
    assert [c.get("run_id", "none") for c in completes] == ["first", "none", "second"]
    assert len(completes[1]["text"].split()) == 4
    (body,) = requests_sent(model, mark)
    assert user_texts(body)[-1] == f"{mark} a\n\n{mark} b [[n=4]]"
    messages = await workspace.messages(session)
    assert roles_and_finishes(messages) == [
        *ENDED_PAIR,
        ("user", "stop"),
        *ENDED_PAIR,
        *ENDED_PAIR,
    ]
    assert texts_of_user(messages)[1:] == [f"{mark} a", f"{mark} b [[n=4]]", "named [[n=3]]"]
    assert completes[1]["message_id"] == messages[4]["id"]
    assert (await workspace.get_session(session))["is_busy"] is False


async def test_they_join_the_first_turn_that_has_a_next_step(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    """The turn that ran had none; the queued one behind it, accepted earlier, has one."""
    seat = await take_seat(connect(shared_server), project())
    workspace, gate, mark = seat.workspace, model.new_gate(), uuid.uuid4().hex
    session = await workspace.session()
    await workspace.prompt(session, f"[[n=2 gate={gate}]]", "first")
    await model.wait_at_gate(gate)
    await workspace.prompt(session, "[[tool=ls {}]] [[n=9]]", "second")
    await workspace.prompt(session, f"{mark} [[n=3]]")
    model.open_gate(gate)
    complete = await seat.stream.run_complete(session, "second")
    assert len(complete["text"].split()) == 3
    assert len(seat.stream.of("run_complete", session)) == 2
    assert [roles(body)[-2:] for body in requests_sent(model, mark)] == [["tool", "user"]]


async def test_a_cancel_takes_those_that_joined_and_those_that_wait(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project()
    seat = await take_seat(connect(shared_server), path, yolo=True)
    workspace, blocked, gate = seat.workspace, BlockedTool(path), model.new_gate()
    session = await workspace.session()
    await workspace.prompt(session, blocked.script, "first")
    await blocked.wait()
    await workspace.prompt(session, f"joins [[n=3 gate={gate}]]")
    blocked.release()
    await model.wait_at_gate(gate)
    await workspace.prompt(session, "waits [[n=3]]")
    await workspace.cancel(session)
    await seat.stream.wait_for(lambda _: len(seat.stream.of("run_complete", session)) == 2)
    completes = [e.payload for e in seat.stream.of("run_complete", session)]
    assert [(c.get("run_id"), c["cancelled"]) for c in completes] == [("first", True), (None, True)]
    assert roles_and_finishes(await workspace.messages(session)) == [
        ("user", "stop"),
        ("assistant", "tool_use"),
        ("tool", "stop"),
        ("user", "stop"),
        ("assistant", "canceled"),
        ("user", "stop"),
        ("assistant", "canceled"),
    ]
    assert seat.stream.errors() == []
    model.open_gate(gate)
