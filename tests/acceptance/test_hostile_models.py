"""A model whose calls have ids that no column takes: its tools work, and everything is found again."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from tests.acceptance.calling import permission_request, results
from tests.acceptance.conversation import SHORT, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.project import configuration, make_project
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]

QUESTION = {"questions": [{"type": "yes_no", "question": "Go?"}]}
CALLS = {
    "agent": {"prompt": SHORT},
    "question": QUESTION,
    "bash": {"command": "touch made", "description": "test"},
}


class Caller:
    """Answers a prompt that is a call's id with calls of that id; then, and to children, a word."""

    def __init__(self) -> None:
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        prompt, results_since = "", 0
        for message in body["messages"]:
            if message["role"] == "user":
                prompt, results_since = str(message["content"]).replace("␀", "\0"), 0
            results_since += message["role"] == "tool"
        deltas: list[dict[str, Any]] = [{"content": "word"}]
        if body.get("tools") and not results_since and prompt != SHORT:
            deltas = [_call(number, prompt, *named) for number, named in enumerate(CALLS.items())]
        finish = "tool_calls" if "tool_calls" in deltas[0] else "stop"
        lines = [_line(delta, None) for delta in deltas] + [_line({}, finish), "data: [DONE]\n\n"]
        return web.Response(text="".join(lines), content_type="text/event-stream")


def _call(number: int, call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": number, "id": call_id, "function": function}]}


def _line(delta: dict[str, Any], finish: str | None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", made.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield made
    await runner.cleanup()


@pytest.mark.parametrize(
    "call_id", ["x" * 190, "x" * 5000, "é" * 163, "a\0b", "a/b?c#d $$e"], ids=lambda i: repr(i[:6])
)
async def test_calls_with_any_ids_run_and_are_found_again(
    shared_server: Server, connect: Connect, caller: Caller, tmp_path: Path, call_id: str
) -> None:
    project = make_project(tmp_path / "project", caller.url)
    seat = await take_seat(connect(shared_server), project)
    session = await seat.workspace.session()

    # No prompt may hold a NUL: the model reads it from the sign for it.
    await seat.workspace.prompt(session, call_id.replace("\0", "␀"))
    batch = await seat.stream.wait_for(lambda e: e.type == "question_batch_request")
    answer = {"request_id": batch.payload["questions"][0]["id"], "yes": True}
    assert await seat.workspace.answer_questions(batch.payload["id"], [answer])
    await seat.workspace.grant(await permission_request(seat, session))

    assert "error" not in await seat.stream.run_complete(session)
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages)[-1] == ("assistant", "end_turn")
    found = results(messages)
    assert sorted(result["name"] for result in found) == sorted(CALLS)
    assert [result["content"] for result in found if result["is_error"]] == []
    assert (project / "made").exists()
    (child,) = [
        e.payload["id"]
        for e in seat.stream.of("session")
        if e.action == "created" and e.payload["parent_session_id"] == session
    ]
    assert await seat.workspace.messages(quote(child, safe=""))


async def test_a_model_name_that_no_column_can_store_is_reported_and_not_used(
    shared_server: Server, connect: Connect, caller: Caller, tmp_path: Path
) -> None:
    settings = configuration(caller.url)
    project = make_project(tmp_path / "project", caller.url)
    for name in ("a\0b", "m" * 201):
        settings["models"]["large"]["model"] = name
        (project / "crush.json").write_text(json.dumps(settings))
        workspace = await connect(shared_server).workspace(project)
        await workspace.call("POST", "/agent/update")

        problems = (await workspace.config())["problems"]

        assert [p for p in problems if "models.large.model: must" in p], problems
        body = {"scope": 1, "key": "models.large.model", "value": name}
        await workspace.call("POST", "/config/set", body, expect=400)
