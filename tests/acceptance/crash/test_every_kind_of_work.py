"""Each kind of work is cut by a crash, by a stop, and by a worker that freezes: all of it goes on."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import (
    agents,
    call,
    eventually,
    permission_request,
    results,
    until,
)
from tests.acceptance.conversation import Seat, take_seat, text_of
from tests.acceptance.crash.ground import PATIENT, QUICK, Connect, MakeProject, MakeServer, log_of
from tests.acceptance.folding import Fold
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp.servers import on_stdio
from tests.acceptance.mcp.sitting import sit

pytestmark = pytest.mark.timeout(400)

QUESTION = {"type": "free_text", "question": "What is its name?"}
TOOLS = ["bash", "fetch", "agentic_fetch", "web_fetch", "mcp_s_sure"]
COMMAND = "echo x >> marks; sleep 600"
SUMMARISED = "summarised"
KINDS = frozenset(
    {"permission", "question", "idempotent", "reply", "agent", "effect", "pure", "agent's tool"}
)


@dataclass
class SlowPages:
    """A web site on which the first request of each page hangs."""

    requests: Counter[str] = field(default_factory=Counter)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).decode().split()[1]
        self.requests[path] += 1
        if self.requests[path] == 1:
            await self.ended.wait()
        else:
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: 5\r\n\r\nwords".encode())
        writer.close()


@asynccontextmanager
async def slow_pages() -> AsyncIterator[SlowPages]:
    pages = SlowPages()
    listener = await asyncio.start_server(pages.answer, "127.0.0.1", 0)
    pages.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield pages
    finally:
        pages.ended.set()
        listener.close()


@dataclass
class Work:
    """A session for each kind of work, and where each of them is held."""

    seat: Seat
    model: ScriptedModel
    pages: SlowPages
    notes: Path
    gates: dict[str, str]
    kinds: frozenset[str]
    sessions: dict[str, str] = field(default_factory=dict)

    @property
    def prompts(self) -> dict[str, str]:
        g = self.gates
        reading = call("web_fetch", url=f"{self.pages.url}/child")
        # The model's script sees no command in the prompt for the agent.
        task = json.dumps({"prompt": reading}).replace("[", "\\u005b").replace("]", "\\u005d")
        # The agent's page comes last, because a request for one has no more than half a minute.
        return {
            "permission": call("write", file_path="allowed", content="x"),
            "question": call("question", questions=[QUESTION]),
            "idempotent": call("mcp_s_sure"),
            "reply": f"[[n=80 gate={g['reply']} hold=60 aside={g['title']}]]",
            "agent": agents(f"[[n=5 gate={g['agent']}]]"),
            "effect": call("bash", command=COMMAND, description="test", auto_background_after=600),
            "pure": call("fetch", url=f"{self.pages.url}/pure", format="text", timeout=120),
            "agent's tool": f"[[calls=agentic_fetch {task}]] [[n=3]]",
        }

    async def begin(self) -> None:
        workspace = self.seat.workspace
        session = self.sessions[SUMMARISED] = await workspace.session("with a title")
        await workspace.prompt(session, f"[[n=3 aside={self.gates['summary']}]]", SUMMARISED)
        await self.seat.stream.run_complete(session, SUMMARISED)
        await workspace.call("POST", f"/agent/sessions/{session}/summarize")
        for name in (name for name in self.prompts if name in self.kinds):
            self.sessions[name] = await workspace.session()
            await workspace.prompt(self.sessions[name], self.prompts[name], name)
        for gate in self.gates.values():
            await self.model.wait_at_gate(gate)
        marks = workspace.path / "marks"
        await until(self._is_held, "all tools run")
        await eventually(lambda: marks.exists() and keys_in(self.notes) != [], "all tools run")
        await permission_request(self.seat, self.sessions["permission"])
        await self.seat.stream.wait_for(lambda e: e.type == "question_batch_request")

    async def _is_held(self) -> bool:
        return set(self.pages.requests) == self.pages_of_kinds

    @property
    def pages_of_kinds(self) -> set[str]:
        return {"/pure", "/child"} if "agent's tool" in self.kinds else {"/pure"}

    async def resume(self, seat: Seat) -> None:
        """Opens the gates, and gives the answers for which runs wait."""
        self.seat = seat
        for gate in self.gates.values():
            self.model.open_gate(gate)
        request = await permission_request(seat, self.sessions["permission"])
        assert await seat.workspace.grant(request) is True
        event = await seat.stream.wait_for(lambda e: e.type == "question_batch_request")
        answer = {"request_id": event.payload["questions"][0]["id"], "fill_in_text": "Ada"}
        assert await seat.workspace.answer_questions(event.payload["id"], [answer]) is True

    async def check(self, client: Client) -> None:
        fold = await self._when_all_have_ended(client)
        fold.check_runs()
        assert {run["outcome"] for run in fold.ends} == {"completed"}
        found = {name: await self._messages(name) for name in self.sessions}
        (reply,) = [m for m in found["reply"] if m["role"] == "assistant"]
        assert len(text_of(reply).split()) == 80
        await until(self._has_title, "the session has a title")
        summaries = [m for m in found[SUMMARISED] if m.get("is_summary_message")]
        assert [len(text_of(message).split()) for message in summaries] == [3]

        given = {name: results(messages) for name, messages in found.items()}
        contents = {name: result[0]["content"] for name, result in given.items() if result}
        assert all(len(result) == 1 for name, result in given.items() if name in contents)
        failed = [name for name, result in given.items() if result and result[0]["is_error"]]
        assert failed == ["effect"], contents
        assert contents["effect"].startswith("The outcome of this call is unknown")
        assert (self.seat.workspace.path / "marks").read_text() == "x\n"
        assert contents["pure"] == "words"
        assert self.pages.requests == dict.fromkeys(self.pages_of_kinds, 2)
        assert contents["idempotent"] == "done"
        first, second = keys_in(self.notes)
        assert first == second
        assert (self.seat.workspace.path / "allowed").read_text() == "x"
        assert "Ada" in contents["question"]
        assert len(contents["agent"].split()) == 5
        if "agent's tool" in self.kinds:
            assert len(contents["agent's tool"].split()) == 3

    async def _messages(self, name: str) -> list[dict[str, Any]]:
        return list(await self.seat.workspace.messages(self.sessions[name]))

    async def _has_title(self) -> bool:
        session = await self.seat.workspace.get_session(self.sessions["reply"])
        return bool(session["title"] != "New Session")

    async def _when_all_have_ended(self, client: Client) -> Fold:
        await until(self._is_idle, "the end of all runs", 120)
        return await log_of(client, self.seat.workspace)

    async def _is_idle(self) -> bool:
        found = {row["id"]: row["is_busy"] for row in await self.seat.workspace.sessions()}
        return not any(found[session] for session in self.sessions.values())


def keys_in(notes: Path) -> list[str]:
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [line for line in lines if line.startswith("key ")]


@pytest.fixture
async def work(
    project: MakeProject, connect: Connect, model: ScriptedModel, tmp_path: Path
) -> AsyncIterator[Any]:
    async with slow_pages() as pages:

        async def make(server: Server, *, without: str = "") -> Work:
            notes = tmp_path / "notes"
            path = project(
                "every-kind",
                permissions={"allowed_tools": TOOLS},
                tools={"web": {"allowed_private_hosts": ["*"]}},
                mcp={"s": on_stdio("--repeatable", env={"MCP_NOTES": str(notes)})},
            )
            seat = await sit(server, connect, path, yolo=False)
            kinds = ("reply", "title", "summary", "agent")
            gates = {kind: model.new_gate() for kind in kinds}
            made = Work(seat, model, pages, notes, gates, KINDS - {without})
            await made.begin()
            return made

        yield make


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
async def test_work_goes_on_after_the_end_of_its_server(
    make_a_server: MakeServer, shape: Shape, connect: Connect, work: Any, how: str
) -> None:
    server = make_a_server(shape, env={**PATIENT, **QUICK, "CRUSH_DRAIN": "1"})
    await asyncio.to_thread(server.start)
    held: Work = await work(server)
    await asyncio.to_thread(server.kill9 if how == "SIGKILL" else server.stop)
    await asyncio.to_thread(server.start)
    workspace = held.seat.workspace
    await held.resume(
        await take_seat(connect(server), workspace.path, client_id=workspace.client_id)
    )
    await held.check(connect(server))


async def test_work_goes_on_while_its_worker_is_frozen(
    make_a_server: MakeServer, connect: Connect, work: Any
) -> None:
    server = make_a_server(Shape.SCALED, workers=2, env={**PATIENT, **QUICK})
    await asyncio.to_thread(server.start)
    frozen, other = server.processes("worker")
    await asyncio.to_thread(other.stop)
    # A page for an agent has a time limit, and the other worker may need longer to start.
    held: Work = await work(server, without="agent's tool")
    await asyncio.to_thread(server.start)
    frozen.send(signal.SIGSTOP)
    try:
        await held.resume(held.seat)
        await held.check(connect(server))
    finally:
        frozen.send(signal.SIGCONT)
    # It finds that its runs are held by another worker, and changes nothing more.
    session = await held.seat.workspace.session()
    await held.seat.workspace.prompt(session, "[[n=3]]", "after")
    await held.seat.stream.run_complete(session, "after")
    await held.check(connect(server))
