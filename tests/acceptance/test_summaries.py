"""Long sessions: summaries by hand, near the end of the window, and when it is exhausted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.calling import results
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat, text_of
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

WINDOW = 10_000
FULL = "usage=8500,100,0"  # of the window above: less than a fifth is left


def with_window(path: Path, **options: Any) -> Path:
    file = path / "crush.json"
    configuration = json.loads(file.read_text())
    for model in configuration["providers"]["fake"]["models"]:
        model |= {"context_window": WINDOW, "default_max_tokens": 500}
    file.write_text(json.dumps(configuration | {"options": options}))
    return path


async def run(seat: Seat, session: str, prompt: str) -> dict[str, Any]:
    start = seat.stream.mark()
    await seat.workspace.prompt(session, prompt)
    return await seat.stream.run_complete(session, start=start)


def summaries(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message.get("is_summary_message")]


def progress(seat: Seat) -> list[bool]:
    notices = [event.payload for event in seat.stream.of("agent_event")]
    return [event["done"] for event in notices if event["type"] == "summarize"]


def sent_messages(model: ScriptedModel, containing: str) -> str:
    """The messages of a turn's newest request that hold a text, as one text."""
    number = [entry for entry in model.served(containing) if not entry["title"]][-1]["number"]
    return json.dumps(model.request(number)["body"]["messages"])


async def test_a_session_is_summarised_on_request_and_continues_from_the_summary(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project("by-hand"))
    session = await seat.workspace.session()
    first, second = model.new_gate(), model.new_gate()
    await run(seat, session, f"{first} the old words [[n=3]]")

    await seat.workspace.call("POST", f"/agent/sessions/{session}/summarize")
    await seat.stream.wait_for(
        lambda e: e.type == "agent_event" and e.payload["type"] == "summarize" and e.payload["done"]
    )
    await run(seat, session, f"{second} the new words [[n=3]]")

    messages = await seat.workspace.messages(session)
    (summary,) = summaries(messages)
    assert roles_and_finishes(messages)[2] == ("assistant", "end_turn")
    session_row = await seat.workspace.get_session(session)
    assert session_row["summary_message_id"] == summary["id"]
    assert progress(seat) == [False, True]
    request = sent_messages(model, second)
    assert text_of(summary).strip() in request
    assert first not in request
    # Nobody prompted for it: no run's end was announced.
    assert len(seat.stream.of("run_complete")) == 2


async def test_a_conversation_near_the_end_of_its_window_is_summarised_before_it_goes_on(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), with_window(project("near")))
    session = await seat.workspace.session()
    second = model.new_gate()
    await run(seat, session, f"the first [[n=3 {FULL}]]")
    assert progress(seat) == []

    complete = await run(seat, session, f"{second} [[n=3]]")

    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    assert [m["role"] for m in messages] == ["user", "assistant", "user", "assistant", "assistant"]
    (summary,) = summaries(messages)
    assert messages[3]["id"] == summary["id"]
    assert complete["message_id"] == messages[-1]["id"]
    request = sent_messages(model, second)
    assert text_of(summary).strip() in request
    assert "the first" not in request


async def test_a_summary_in_the_middle_of_a_turn_keeps_the_prompt(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), with_window(project("middle")))
    session = await seat.workspace.session()
    mark = model.new_gate()

    complete = await run(seat, session, f'{mark} [[tool=ls {{"path": "."}}]] [[n=3 {FULL}]]')

    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    assert len(summaries(messages)) == 1
    assert len(results(messages)) == 2  # before the summary, and again by the forgetful model
    request = sent_messages(model, mark)
    assert "<summary>" in request
    assert mark in request
    assert roles_and_finishes(messages)[-1] == ("assistant", "end_turn")


async def test_an_exhausted_window_causes_a_summary_and_one_retry(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), with_window(project("exhausted")))
    session = await seat.workspace.session()
    await run(seat, session, "the first [[n=3]]")

    complete = await run(seat, session, f"[[overflow times=1 key={model.new_gate()}]] [[n=4]]")

    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    assert len(summaries(messages)) == 1
    assert roles_and_finishes(messages)[-1] == ("assistant", "end_turn")
    assert [e for e in seat.stream.of("agent_event") if e.payload["type"] == "error"] == []


async def test_a_window_that_is_still_exhausted_is_an_error_after_one_retry(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), with_window(project("stays")))
    session = await seat.workspace.session()
    mark = model.new_gate()

    complete = await run(seat, session, f"{mark} [[overflow]]")

    assert "context window of 'fake-large'" in complete["error"]
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages)[-1] == ("assistant", "error")
    assert len(summaries(messages)) == 1


async def test_nothing_is_summarised_when_the_configuration_disables_it(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = with_window(project("switched-off"), disable_auto_summarize=True)
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await run(seat, session, f"[[n=3 {FULL}]]")
    await run(seat, session, "[[n=3]]")
    complete = await run(seat, session, f"{model.new_gate()} [[overflow times=1]] [[n=4]]")

    assert complete["error"]
    assert summaries(await seat.workspace.messages(session)) == []


async def test_a_summary_can_be_cancelled_and_the_conversation_is_kept(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    """The model answers a summary at once, so it is held behind a prompt and cancelled there."""
    seat = await take_seat(connect(shared_server), project("cancelled-summary"))
    session = await seat.workspace.session()
    later = model.new_gate()
    await run(seat, session, "kept words [[n=3]]")
    start = seat.stream.mark()
    await seat.workspace.prompt(session, "[[n=20000 d=20]]")
    await seat.stream.wait_for(lambda e: e.type == "message" and "word5" in e.text, start=start)
    await seat.workspace.call("POST", f"/agent/sessions/{session}/summarize")
    assert await seat.workspace.queued(session) == 0  # it is no prompt

    await seat.workspace.cancel(session)
    await seat.stream.run_complete(session, start=start)
    await run(seat, session, f"{later} [[n=3]]")

    assert (await seat.workspace.get_session(session))["summary_message_id"] == ""
    assert "kept words" in sent_messages(model, later)


async def test_an_empty_session_has_nothing_to_summarise(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("empty"))
    session = await seat.workspace.session()

    await seat.workspace.call("POST", f"/agent/sessions/{session}/summarize")

    assert await seat.workspace.messages(session) == []
    assert not (await seat.workspace.agent_session(session))["is_busy"]
    await seat.workspace.call("POST", "/agent/sessions/nobody/summarize", expect=404)
