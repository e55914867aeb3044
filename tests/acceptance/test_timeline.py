"""The timeline of a run, and the board, with a real server and the scripted model."""

from collections.abc import Callable
from pathlib import Path

from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server


async def test_a_run_shows_what_it_did_and_the_board_that_it_is_done(
    shared_server: Server, connect: Callable[[Server], Client], project: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(shared_server), project())
    http, api = seat.workspace.client.http, f"/api/workspaces/{seat.workspace.id}"
    session = await seat.workspace.session()
    body = {"text": '[[tool=ls {"path": "."}]] [[n=3]]', "run_id": "look"}
    run = await http.call("POST", f"{api}/sessions/{session}/prompts", body, expect=202)
    complete = await seat.stream.run_complete(session, "look")

    steps = (await http.call("GET", f"{api}/runs/{run['key']}/steps"))["items"]
    assert [step["kind"] for step in steps] == ["queue", "reply", "call", "reply"]
    _, first, call, second = steps
    assert first["started_at"] <= first["first_at"] <= first["ended_at"]
    assert first["ended_at"] <= call["started_at"] <= call["ended_at"] <= second["started_at"]
    assert (call["name"], call["outcome"], second["outcome"]) == ("ls", "done", "end_turn")
    assert second["completion_tokens"] > 0

    workspaces = (await http.call("GET", "/api/board?limit=200"))["items"]
    (shown,) = [each for each in workspaces if each["id"] == seat.workspace.id]
    (own,) = [each for each in shown["sessions"] if each["id"] == session]
    assert (own["state"], own["waiting"]) == ("done", None)
    assert own["last_line"] == complete["text"].strip()
