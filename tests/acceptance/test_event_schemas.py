"""A real server sends every type of event, and each item fits its published schema.

The readers of `harness/native.py` check each item and end at the first that does not fit.
"""

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.acceptance.calling import call, permission_request, until, write
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeReader, NativeSocket, NativeSse
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.lsp.seats import double
from tests.acceptance.mcp.servers import on_stdio
from tests.stream_schemas import described, kind_of

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

# Needs a reader that takes nothing of a MiB: tests/integration/delivery/test_native_socket.py.
EXCEPTIONS = {"stream.resume"}


class Stage:
    """A seat, its readers, and the native resources of its workspace."""

    def __init__(self, seat: Seat, model: ScriptedModel) -> None:
        self.seat = seat
        self.model = model
        http = seat.workspace.client.http
        self.readers: list[NativeReader] = [
            NativeSse(http, seat.workspace.id, after=0),
            NativeSocket(http, seat.workspace.id, after=0),
        ]

    async def ask(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        address = f"/api/workspaces/{self.seat.workspace.id}{path}"
        return await self.seat.workspace.client.http.call(method, address, body, expect=expect)

    async def seen(self, kind: str, count: int = 1) -> None:
        """Until both readers have items of this type."""
        for reader in self.readers:
            found = [item for item in reader.received if item.type == kind]
            if len(found) < count:
                await reader.wait_for(lambda item: item.type == kind, start=len(reader.received))

    async def run(self, prompt: str, session: str = "") -> str:
        """A prompt to its end; the session."""
        session = session or await self.seat.workspace.session(uuid.uuid4().hex)
        run_id = uuid.uuid4().hex
        await self.seat.workspace.prompt(session, prompt, run_id)
        await self.seat.stream.run_complete(session, run_id)
        return session

    def types(self) -> set[str]:
        for reader in self.readers:
            assert reader.ended is None or "unreadable" not in reader.ended, reader.ended
        return {kind_of(item.body) for reader in self.readers for item in reader.received}


@pytest.mark.timeout(300)
async def test_every_type_is_sent_and_fits_its_schema(
    kept_servers: Callable[[Shape], Server],
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
) -> None:
    client = connect(kept_servers(Shape.EMBEDDED))
    folder = project(
        uuid.uuid4().hex, mcp={"late": on_stdio("--hang")}, lsp={"double": double("publish")}
    )
    (folder / "a.py").write_text("x = 1\n")
    stage = Stage(await take_seat(client, folder), model)
    published = await client.http.call("GET", "/api/schema/events")
    Draft202012Validator.check_schema(published)
    for reader in stage.readers:
        await reader.open()  # type: ignore[attr-defined]
    try:
        await conversations(stage)
        await answers(stage)
        await queue(stage)
        await history(stage)
        await surroundings(stage)
        missing = described() - stage.types() - EXCEPTIONS - {"deltas"}
        assert missing == set()
        unneeded = EXCEPTIONS & stage.types()
        assert unneeded == set(), "these are sent: strike them from the exceptions"
    finally:
        for reader in stage.readers:
            await reader.close()  # type: ignore[attr-defined]


async def conversations(stage: Stage) -> None:
    session = await stage.run("[[reason=3 n=5 usage=100,50,20]]")  # waits for the MCP server
    await stage.run(f"{uuid.uuid4().hex} [[status=500 times=1 n=3]]", session)
    await stage.run("[[status=400]]", session)
    await stage.seat.workspace.call("POST", f"/agent/sessions/{session}/summarize")
    await stage.seen("summary.progressed", 2)
    shell = asyncio.create_task(stage.seat.workspace.shell(session, "echo 1; sleep 1; echo 2"))
    await stage.seen("tool.output")
    late = NativeSse(stage.seat.workspace.client.http, stage.seat.workspace.id)
    stage.readers.append(await late.open())
    await shell
    job = {"command": "sleep 0.6", "description": "d", "run_in_background": True}
    await stage.ask("PATCH", "", {"permission_mode": "yolo"})
    await stage.run(f"[[tool=bash {json.dumps(job)}]] [[n=2]]", session)
    await stage.ask("PATCH", "", {"permission_mode": "normal"})
    await stage.seen("job.ended")
    await late.wait_for(lambda item: item.type == "message.progress")
    stage.readers.remove(late)
    stage.readers[0].received.extend(late.received)
    await late.close()


async def answers(stage: Stage) -> None:
    policy = {"notify_after_seconds": 1, "deny_after_seconds": None}
    await stage.ask("PUT", "/approval-policy", policy)
    session = await stage.seat.workspace.session("asks")
    await stage.seat.workspace.prompt(session, write("made.txt"), "one")
    request = await permission_request(stage.seat, session)
    asking = await stage.seat.workspace.session("questions")
    question = {"type": "yes_no", "question": "Go?"}
    await stage.seat.workspace.prompt(asking, call("question", questions=[question]), "two")
    await stage.seen("permission.overdue")
    await stage.seen("question.overdue")
    body = {"answer": "allow", "scope": "session", "reason": "fine"}
    await stage.ask("POST", f"/approvals/{request['id']}/answer", body)
    await stage.seat.stream.run_complete(session, "one")
    grants = await stage.seat.workspace.client.http.call("GET", "/api/grants")
    (grant,) = [one for one in grants["items"] if one.get("session_id") == session]
    await stage.ask("DELETE", f"/grants/{grant['id']}", expect=204)
    event = await stage.seat.stream.wait_for(lambda e: e.type == "question_batch_request")
    asked = event.payload["questions"][0]["id"]
    await stage.seat.workspace.answer_questions(
        event.payload["id"], [{"request_id": asked, "yes": True}]
    )
    await stage.seat.stream.run_complete(asking, "two")
    # The reply that waits has ended: a cancel changes it.
    start = stage.seat.stream.mark()
    await stage.seat.workspace.prompt(session, write("never.txt"), "three")
    await permission_request(stage.seat, session, start=start)
    await stage.seat.workspace.cancel(session)
    await stage.seat.stream.run_complete(session, "three")


async def queue(stage: Stage) -> None:
    session, mark = await stage.seat.workspace.session("queue"), uuid.uuid4().hex
    gate = stage.model.new_gate()
    workspace = stage.seat.workspace
    await workspace.prompt(session, f"{mark} [[gate={gate}]] [[tool=ls {{}}]] [[n=9]]", "first")
    await stage.model.wait_at_gate(gate)
    for name in ("b", "c"):
        await workspace.prompt(session, f"{name} [[n=2]]", f"queued-{name}")
    await workspace.prompt(session, f"{mark} joins [[n=2]]")
    listed = (await stage.ask("GET", f"/sessions/{session}/queue"))["items"]
    second = listed[1]["key"]
    await stage.ask("PATCH", f"/sessions/{session}/queue", {"keys": [second]}, expect=204)
    await stage.ask("PATCH", f"/queue/{second}", {"text": "changed [[n=2]]"})
    stage.model.open_gate(gate)
    await stage.seat.stream.run_complete(session, "queued-b")
    await stage.seat.stream.run_complete(session, "queued-c")


async def history(stage: Stage) -> None:
    session = await stage.run("[[n=2]]")
    await stage.run("again [[n=2]]", session)
    first = (await stage.seat.workspace.messages(session))[0]["id"]
    await stage.ask("POST", f"/sessions/{session}/forks", {"message_id": first}, expect=201)
    body = {"message_id": first, "keeps_message": True, "with_files": True}

    async def rewound() -> Any:  # the session may be busy for a moment
        return (
            None
            if (await stage.seat.workspace.agent_session(session))["is_busy"]
            else await stage.ask("POST", f"/sessions/{session}/rewinds", body, expect=201)
        )

    done = await until(rewound, "the session is rewound")
    await stage.ask("POST", f"/sessions/{session}/rewinds/{done['id']}/undo")
    await stage.seat.workspace.delete_session(session)


async def surroundings(stage: Stage) -> None:
    workspace = stage.seat.workspace
    await workspace.call("POST", "/config/compact", {"scope": 1, "enabled": True})
    await stage.ask("PATCH", "", {"permission_mode": "yolo"})
    await workspace.call("POST", "/lsps/start", {"path": str(workspace.path / "a.py")})
    for kind in ("lsp.changed", "mcp.changed", "skills.changed", "session.deleted"):
        await stage.seen(kind)
    socket = stage.readers[1]
    assert isinstance(socket, NativeSocket)
    await socket.send(json.loads('{"id": 1, "command": "ping"}'))
    await socket.wait_for(lambda item: item.type == "reply")
    await workspace.release()
    await stage.seen("workspace.closed")
