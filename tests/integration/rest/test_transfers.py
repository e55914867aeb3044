"""Export and import of sessions: what comes out goes in again, and nothing goes in by halves."""

import base64
from typing import Any

import orjson
import pytest
import pytest_asyncio

from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.actions.messages import create_message, start_command_message
from workspaces.actions.sessions import add_usage, create_session, replace_todos
from workspaces.log.parts import (
    Binary,
    Finish,
    FinishReason,
    Parts,
    Reasoning,
    Role,
    ShellCommand,
    Text,
    ToolCall,
    ToolResult,
)
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.models import Event, Message, Session

PICTURE = base64.b64encode(b"\x89PNG" * 1_000).decode()


class Files:
    def __init__(self, rest: Api, workspace: Opened) -> None:
        self.rest, self.workspace = rest, workspace
        self.url = f"/api/workspaces/{workspace.id}/sessions"

    async def add(self, session_id: str, role: Role, *parts: Any, **more: Any) -> str:
        message = await writer.write(
            self.workspace.id,
            lambda tx: create_message(
                tx, self.workspace.id, session_id, role=role, parts=parts, **more
            ),
        )
        return str(message["id"])

    async def export(self, session_id: str, kind: str = "jsonl") -> bytes:
        chunks: list[bytes] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 200, message
            chunks.append(message.get("body", b""))

        await self.rest.stream(f"{self.url}/{session_id}/export?kind={kind}", send)
        return b"".join(chunks)

    async def load(self, content: bytes) -> Any:
        return await self.rest.call("POST", f"{self.url}/import", raw=content)

    async def whole(self) -> str:
        """A session with every kind of part, a summary, todos and a child session."""
        workspace_id, top = self.workspace.id, await self.workspace.session("The `top` one")
        await self.add(top, Role.USER, Text("look"), Binary("a.png", "image/png", PICTURE))
        parts: Parts = (
            Reasoning("hidden"),
            Text("I look. ```"),
            ToolCall("c", "bash", '{"command": "ls ```` "}', finished=True),
            Finish(FinishReason.TOOL_USE, 5),
        )
        reply = await self.add(top, Role.ASSISTANT, *parts, model="m", provider="p")
        result = ToolResult("c", "bash", "one\ntwo\n" * 2_000, metadata="{}")
        await self.add(top, Role.TOOL, result, Finish(FinishReason.STOP))
        summary = await self.add(top, Role.ASSISTANT, Text("in short"), is_summary=True)
        await writer.write(
            workspace_id,
            lambda tx: add_usage(tx, top, context_tokens=7, summary_message_id=summary),
        )
        todo = {"content": "c", "status": "pending", "active_form": "a"}
        await writer.write(
            workspace_id, lambda tx: replace_todos(tx, workspace_id, top, todos=[todo])
        )
        child = f"{reply}$$c"
        await writer.write(
            workspace_id,
            lambda tx: create_session(
                tx, workspace_id, title="child", session_id=child, parent_session_id=top
            ),
        )
        await self.add(child, Role.USER, Text("below"))
        return top


@pytest_asyncio.fixture
async def files(rest: Api, workspace: Opened) -> Files:
    return Files(rest, workspace)


def plain(content: bytes) -> list[Any]:
    """The lines of an export without ids and times."""
    lines = []
    for line in content.splitlines():
        value = orjson.loads(line)
        for name in ("session", "message"):
            for volatile in ("id", "session_id", "parent_session_id", "summary_message_id"):
                value.get(name, {}).pop(volatile, None)
            value.get(name, {}).pop("updated_at", None)
        for part in value.get("message", {}).get("parts", []):
            part["data"].pop("time", None)
        lines.append(value)
    return lines


async def test_an_export_is_imported_whole(files: Files) -> None:
    top = await files.whole()
    exported = await files.export(top)
    answer = await files.load(exported)
    assert answer.status == 201, answer
    made = answer.json
    assert made["id"] != top
    assert (made["title"], made["message_count"]) == ("The `top` one", 4)
    assert made["cost"] == 0
    again = plain(await files.export(made["id"]))
    expected = plain(exported)
    for line in [*again, *expected]:
        parts = line.get("message", {}).get("parts", [])
        line.get("message", {})["parts"] = [part for part in parts if part["type"] != "finish"]
    assert again == expected
    summary = await read(Message.objects.get, pk=made["summary_message_id"])
    assert (summary.session_id, summary.is_summary) == (made["id"], True)
    child = await read(Session.objects.get, parent_session_id=made["id"])
    message_id, _, call_id = child.pk.partition("$$")
    reply = await read(Message.objects.get, pk=message_id)
    assert (reply.session_id, call_id) == (made["id"], "c")
    events = Event.objects.filter(kind="message.created", session_id=made["id"])
    assert await read(events.count) == 4


async def test_markdown_is_for_people_and_cannot_be_broken_out_of(files: Files) -> None:
    text = (await files.export(await files.whole(), "markdown")).decode()
    assert text.startswith("# The 'top' one\n")
    assert "hidden" not in text
    assert "# Child session: child" in text
    assert '`````\n{"command": "ls ```` "}\n`````' in text
    assert "more characters" in text
    assert PICTURE not in text


async def test_messages_that_are_being_written_are_left_out(files: Files) -> None:
    session_id = await files.workspace.session()
    await files.add(session_id, Role.USER, Text("whole"))
    workspace_id, command = files.workspace.id, ShellCommand("half", "", 0)
    await writer.write(
        workspace_id,
        lambda tx: start_command_message(tx, workspace_id, session_id, command=command),
    )
    exported = await files.export(session_id)
    assert b"half" not in exported
    assert orjson.loads(exported.splitlines()[-1])["messages"] == 1
    assert (await files.load(exported)).status == 201


def session_line(**more: Any) -> Any:
    return {"type": "session", "version": 1, "session": {"id": "s", "title": "t", **more}}


def message_line(**more: Any) -> Any:
    message = {"id": "m", "session_id": "s", "role": "user", "parts": [], **more}
    return {"type": "message", "message": message}


def end_line(sessions: int = 1, messages: int = 0) -> Any:
    return {"type": "end", "sessions": sessions, "messages": messages}


def part(kind: str, **data: Any) -> Any:
    return {"type": kind, "data": data}


WRONG: dict[str, list[Any]] = {
    "nothing": [],
    "no session": [end_line(0)],
    "no end": [session_line()],
    "fewer messages": [session_line(), end_line(1, 1)],
    "lines after the end": [session_line(), end_line(), session_line()],
    "a message first": [message_line(), end_line(0, 1)],
    "another version": [{**session_line(), "version": 2}, end_line()],
    "a list": [[1]],
    "a number": [7],
    "an unknown type": [{"type": "x"}],
    "no id": [session_line(id=""), end_line()],
    "the same id twice": [session_line(), session_line(parent_session_id="s"), end_line(2)],
    "an unknown parent": [session_line(), session_line(id="x", parent_session_id="y"), end_line(2)],
    "a long title": [session_line(title="x" * 501), end_line()],
    "a title that is none": [session_line(title=7), end_line()],
    "wrong todos": [session_line(todos=[{"content": "c", "status": "x"}]), end_line()],
    "todos that are none": [session_line(todos={"a": 1}), end_line()],
    "a wrong time": [session_line(created_at=2**60), end_line()],
    "a time that is none": [session_line(created_at="now"), end_line()],
    "a message of another session": [session_line(), message_line(session_id="x"), end_line(1, 1)],
    "an unknown role": [session_line(), message_line(role="root"), end_line(1, 1)],
    "parts that are none": [session_line(), message_line(parts="x"), end_line(1, 1)],
    "too many parts": [
        session_line(),
        message_line(parts=[part("text", text="x")] * 1001),
        end_line(1, 1),
    ],
    "an unknown part": [session_line(), message_line(parts=[part("x")]), end_line(1, 1)],
    "a wrong part": [session_line(), message_line(parts=[part("text", text=7)]), end_line(1, 1)],
    "no base64": [
        session_line(),
        message_line(parts=[part("binary", Path="a", MIMEType="b", Data="$$$")]),
        end_line(1, 1),
    ],
    "a long call id": [
        session_line(),
        message_line(parts=[part("tool_call", id="x" * 201, name="bash")]),
        end_line(1, 1),
    ],
    "a late fault": [
        session_line(),
        *[message_line(id=str(number)) for number in range(50)],
        message_line(role=""),
        end_line(1, 51),
    ],
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_file_is_refused_and_nothing_is_imported(files: Files, name: str) -> None:
    answer = await files.load(b"\n".join(orjson.dumps(line) for line in WRONG[name]))
    assert (answer.status, answer.json["code"]) == (400, "wrong_line")
    assert answer.json["detail"].startswith("line ")
    assert not await read(Session.objects.exists)
    assert not await read(Message.objects.exists)


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"{", b"\0", b'{"type": "\\ud800"}', b"[" * 100_000, b"null", b'"x"', b"1e999"],
)
async def test_what_is_no_json_is_refused(files: Files, content: bytes) -> None:
    answer = await files.load(content)
    assert (answer.status, answer.json["code"]) == (400, "wrong_line")


async def test_too_many_messages_are_refused(files: Files) -> None:
    lines = [session_line(), *[message_line(id=str(number)) for number in range(10_001)]]
    answer = await files.load(b"\n".join(map(orjson.dumps, lines)))
    assert answer.status == 400
    assert "at most" in answer.json["detail"]


async def test_authors_runs_and_costs_are_not_imported(files: Files) -> None:
    author = {"kind": "owner", "name": "someone else", "user_id": 1}
    lines = [
        session_line(cost=9.0, is_busy=True, total_prompt_tokens=5, title="a\0b"),
        message_line(author=author, run_key=1, parts=[part("text", text="x\0y")]),
        end_line(1, 1),
    ]
    answer = await files.load(b"\n".join(map(orjson.dumps, lines)))
    assert answer.status == 201
    assert (answer.json["cost"], answer.json["is_busy"]) == (0, False)
    message = await read(Message.objects.get)
    assert (message.author, message.run_key) == (None, None)
