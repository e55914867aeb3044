"""Tokens, cost, counts and to-dos that a session shows."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conversation import Seat, take_seat
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

    shown_totals = (await seat.stream.wait_for(shows_all)).payload
    # A client divides the last request's tokens by the window: titles do not count.
    assert shown_totals["prompt_tokens"] == 120
    assert shown_totals["message_count"] == 4
    assert shown_totals["cost"] == pytest.approx(large + small, rel=1e-12)
    assert await seat.workspace.get_session(session) == shown_totals
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


async def test_todos_are_shown_at_once_in_every_view_of_a_session(
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
    changed = await seat.stream.wait_for(
        lambda e: e.type == "session" and e.payload.get("todos") == todos
    )
    assert changed.payload["is_busy"] is True
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
