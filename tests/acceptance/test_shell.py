"""A user's own commands through a running server: asked by nobody, streamed, kept as messages."""

import asyncio
import os
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.calling import bash, call, eventually, results, run_call, until
from tests.acceptance.conversation import SHORT, Seat, roles_and_finishes, take_seat, text_of
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.native import NativeSocket, NativeSse, Received
from tests.acceptance.harness.processes import kill_marked
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.harness.stream import Event
from tests.acceptance.marked import GO, STAY, linux_only, mark_in, marked_seat, processes
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]


@pytest.fixture
async def seat(shared_server: Server, connect: Connect, project: MakeProject) -> Seat:
    """In a workspace whose processes can be found by a mark in their environment."""
    return await marked_seat(connect(shared_server), project(uuid.uuid4().hex))


def shell(seat: Seat, session: str, command: str, **more: Any) -> "asyncio.Task[dict[str, Any]]":
    """The command under way; what it answers."""
    path = f"/agent/sessions/{session}/shell"
    return asyncio.ensure_future(seat.workspace.call("POST", path, {"command": command, **more}))


def command_of(message: dict[str, Any]) -> dict[str, Any]:
    (part,) = [part for part in message["parts"] if part["type"] == "shell_command"]
    return dict(part["data"])


async def is_kept(seat: Seat, session: str, output: str) -> bool:
    """Whether the session's only message, a command, is stored with this output."""
    (message,) = await seat.workspace.messages(session)
    return bool(command_of(message)["output"] == output)


async def shows(seat: Seat, session: str, text: str, *, ended: bool = False) -> Event:
    """The first event whose message's command has printed this, and has ended if that is asked."""

    def fits(event: Event) -> bool:
        return (
            event.type == "message"
            and event.session == session
            and event.payload["parts"][0]["type"] == "shell_command"
            and text in event.payload["parts"][0]["data"]["output"]
            and (event.finish is not None or not ended)
        )

    return await seat.stream.wait_for(fits)


async def test_a_users_command_runs_and_is_stored_as_a_user_message(seat: Seat) -> None:
    session = await seat.workspace.session()
    answer = await seat.workspace.shell(session, "echo hi there")
    assert answer == {"output": "hi there\n", "exit_code": 0}
    (message,) = await seat.workspace.messages(session)
    assert message["role"] == "user"
    assert message["parts"] == [
        {
            "type": "shell_command",
            "data": {"command": "echo hi there", "output": "hi there\n", "exit_code": 0},
        },
        {"type": "finish", "data": {"reason": "stop", "time": 0}},
    ]
    assert await seat.workspace.shell(session, "pwd; exit 3") == {
        "output": f"{seat.workspace.path}\n",
        "exit_code": 3,
    }
    assert seat.stream.of("permission_request") == []


async def test_output_fits_the_width_of_the_terminal(seat: Seat) -> None:
    session = await seat.workspace.session()
    command = "stty size </dev/stdout; echo $COLUMNS; test -t 1 && echo screen"
    answer = await shell(seat, session, command, term_width=77)
    assert answer["output"] == "50 77\n77\nscreen\n"
    for name in "abcdefghij":
        (seat.workspace.path / f"file-{name}.txt").touch()
    wide = (await shell(seat, session, "ls *.txt", term_width=200))["output"]
    narrow = (await shell(seat, session, "ls *.txt", term_width=30))["output"]
    plain = (await shell(seat, session, "ls *.txt"))["output"]
    assert wide.count("\n") == 1
    assert narrow.count("\n") == 5
    assert plain.count("\n") == 10
    # Colours stay, what would move a cursor or set a title goes, and lines end as everywhere.
    command = r"printf '\033[31mred\033[0m\033[2J\033]0;title\007\r\n10%%\r20%%\n'"
    answer = await shell(seat, session, command, term_width=80)
    assert answer["output"] == "\033[31mred\033[0m\n20%\n"


async def test_it_is_streamed_as_it_runs(seat: Seat) -> None:
    session = await seat.workspace.session()
    http = seat.workspace.client.http
    readers = [
        await NativeSse(http, seat.workspace.id).open(),
        await NativeSocket(http, seat.workspace.id).open(),
    ]
    try:
        running = shell(seat, session, f"echo first; {GO}; echo second; exit 4")
        created = await seat.stream.wait_for(
            lambda e: e.type == "message" and e.action == "created" and e.session == session
        )
        assert created.payload["role"] == "user"
        assert command_of(created.payload)["output"] == ""
        first = await shows(seat, session, "first\n")
        assert first.action == "updated"
        assert first.finish is None
        message_id = first.payload["id"]
        expected = {
            "session_id": session,
            "message_id": message_id,
            "tool_call_id": "",
            "text": "first\n",
        }
        for reader in readers:
            output = await reader.wait_for(lambda r: r.type == "tool.output")
            assert output.body["data"] == expected
        # Who comes in its middle is shown it as it is stored, a moment after it is told.
        await until(partial(is_kept, seat, session, "first\n"), "it is stored")
        late = await NativeSse(http, seat.workspace.id).open()
        readers.append(late)
        stands = await late.wait_for(lambda r: r.type == "message.progress")
        assert command_of(stands.body["data"]["message"])["output"] == "first\n"
        (message,) = await seat.workspace.messages(session)
        assert roles_and_finishes([message]) == [("user", None)]
        (seat.workspace.path / "go").touch()
        assert await running == {"output": "first\nsecond\n", "exit_code": 4}
        final = await shows(seat, session, "second", ended=True)
        assert (final.finish, command_of(final.payload)["exit_code"]) == ("stop", 4)

        def has_ended(item: Received) -> bool:
            return item.type == "message.finished"

        for reader in readers:
            end = await reader.wait_for(has_ended)
            assert command_of(end.body["data"]["message"])["output"] == "first\nsecond\n"
            # What was told while it ran is not told after its end.
            types = [item.type for item in reader.received]
            assert "tool.output" not in types[types.index("message.finished") :]
    finally:
        for reader in readers:
            await reader.close()


async def test_it_continues_when_its_client_disconnects(seat: Seat) -> None:
    session = await seat.workspace.session()
    path = f"{seat.workspace.client.http.url}/v1/workspaces/{seat.workspace.id}"
    path += f"/agent/sessions/{session}/shell"
    async with aiohttp.ClientSession() as other:
        body = {"command": f"echo first; {GO}; echo second"}
        leaving = asyncio.ensure_future(other.post(path, json=body))
        await shows(seat, session, "first")
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    (seat.workspace.path / "go").touch()
    assert (await shows(seat, session, "second", ended=True)).session == session
    (message,) = await seat.workspace.messages(session)
    assert command_of(message) == {
        "command": body["command"],
        "output": "first\nsecond\n",
        "exit_code": 0,
    }


@linux_only
async def test_a_cancel_of_its_session_ends_it_with_all_its_processes(seat: Seat) -> None:
    session, other = await seat.workspace.session(), await seat.workspace.session()
    running = shell(seat, session, f"trap '' TERM INT HUP; echo begun; {STAY}")
    elsewhere = shell(seat, other, f"{GO}; echo untouched")
    await shows(seat, session, "begun")
    await eventually(lambda: len(processes(seat)) >= 3, "they run")
    await seat.workspace.cancel(session)
    assert await running == {"output": "begun\n", "exit_code": 137}
    (message,) = await seat.workspace.messages(session)
    assert command_of(message)["exit_code"] == 137
    assert roles_and_finishes([message]) == [("user", "stop")]
    (seat.workspace.path / "go").touch()
    assert (await elsewhere)["output"] == "untouched\n"
    assert processes(seat) == []
    assert seat.stream.errors() == []


@linux_only
async def test_it_ends_with_its_session_and_with_its_workspace(seat: Seat) -> None:
    session, kept = await seat.workspace.session(), await seat.workspace.session()
    deleted = shell(seat, session, f"echo begun; {STAY}")
    await shows(seat, session, "begun")
    await seat.workspace.delete_session(session)
    assert (await deleted)["exit_code"] == 137
    closed = shell(seat, kept, f"echo begun; {STAY}")
    await shows(seat, kept, "begun")
    await seat.workspace.release()
    assert (await closed)["exit_code"] == 137
    assert processes(seat) == []


async def test_it_does_not_disturb_a_run_of_its_session(seat: Seat) -> None:
    session = await seat.workspace.session()
    await seat.workspace.skip_permissions()
    await seat.workspace.prompt(session, bash(f"{GO}; echo tool"), "run")
    await eventually(lambda: bool(processes(seat)), "the tool runs")
    answer = await seat.workspace.shell(session, "echo mine")
    assert answer == {"output": "mine\n", "exit_code": 0}
    assert (await seat.workspace.get_session(session))["is_busy"] is True
    (seat.workspace.path / "go").touch()
    complete = await seat.stream.run_complete(session, "run")
    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    assert [result["content"] for result in results(messages)] == ["tool"]
    assert roles_and_finishes(messages) == [
        ("user", "stop"),
        ("assistant", "tool_use"),
        ("user", "stop"),
        ("tool", "stop"),
        ("assistant", "end_turn"),
    ]
    # And the model is told of it in the next turn.
    await seat.workspace.prompt(session, SHORT, "next")
    assert "error" not in await seat.stream.run_complete(session, "next")
    assert text_of((await seat.workspace.messages(session))[-1])


async def test_its_output_is_bounded(seat: Seat, shared_server: Server) -> None:
    log = LogWatch(shared_server)
    session = await seat.workspace.session()
    for more in ({}, {"term_width": 80}):
        answer = await shell(seat, session, "echo top; seq 100000; echo bottom", **more)
        assert len(answer["output"]) < 110_000
        assert answer["output"].startswith("top\n1\n")
        assert answer["output"].endswith("100000\nbottom\n")
        assert "bytes left out" in answer["output"]
    answer = await shell(
        seat, session, r"printf 'a\0b\377\355\240\200'; head -c 50000 /dev/urandom"
    )
    assert answer["output"].startswith("a\ufffdb\ufffd")
    assert log.loud() == []


async def test_a_bad_request_is_refused_with_the_reason(seat: Seat) -> None:
    session = await seat.workspace.session()
    for body, word in [
        ({}, "command"),
        ({"command": " "}, "command"),
        ({"command": 7}, "command"),
        ({"command": "x\0"}, "command"),
        ({"command": "x" * 100_001}, "command"),
        ({"command": "true", "term_width": "80"}, "term_width"),
        ({"command": "true", "term_width": True}, "term_width"),
    ]:
        with pytest.raises(UnexpectedStatus) as refusal:
            await seat.workspace.call("POST", f"/agent/sessions/{session}/shell", body)
        assert (refusal.value.status, word in refusal.value.message) == (400, True)
    with pytest.raises(UnexpectedStatus) as refusal:
        await seat.workspace.shell("unknown", "true")
    assert refusal.value.status == 404
    assert await seat.workspace.messages(session) == []
    assert (await shell(seat, session, "tput cols || true", term_width=-3))["exit_code"] == 0


async def test_each_workspace_has_its_own_environment(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    """Of its client, for a user's command, a tool's command and a job; none has the server's own."""
    client = connect(shared_server)
    for name in ("one", "two"):
        path = project(f"{name}-{uuid.uuid4().hex}")
        env = [f"WHOSE={name}", f"PATH={os.environ['PATH']}"]
        seat = await take_seat(client, path, env=env, yolo=True)
        session = await seat.workspace.session()
        printed = (await seat.workspace.shell(session, "env"))["output"]
        printed += (await run_call(seat, session, bash("env")))["content"] + "\n"
        into = "env > told.tmp; mv told.tmp told.txt"
        behind = call("bash", command=into, description="d", run_in_background=True)
        await run_call(seat, session, behind)
        await eventually((path / "told.txt").exists, "the job has run")
        printed += (path / "told.txt").read_text()
        assert printed.splitlines().count(f"WHOSE={name}") == 3
        lines = set(printed.splitlines())
        assert f"WHOSE={name}" in lines
        for line in lines:
            assert not line.startswith(("DATABASE_URL=", "REDIS_URL=", "DJANGO_", "CRUSH_DATA"))
            assert not line.startswith("WHOSE=") or line == f"WHOSE={name}"
        parent = await seat.workspace.shell(session, "tr '\\0' '\\n' </proc/$PPID/environ")
        assert "CRUSH_" not in parent["output"]


@linux_only
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
async def test_with_the_setting_it_ends_with_its_server_and_keeps_its_stored_output(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject, how: str
) -> None:
    server = make_a_server(
        shape, env={"CRUSH_SERVER_DETACH_GRACE": "60", "CRUSH_KEEP_COMMANDS": "0"}
    )
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path)
    session = await seat.workspace.session()
    running = shell(seat, session, f"trap '' TERM INT HUP; echo begun; {STAY}")
    await shows(seat, session, "begun")
    await until(partial(is_kept, seat, session, "begun\n"), "it is stored")
    await asyncio.to_thread(server.stop if how == "SIGTERM" else server.kill9)
    await asyncio.gather(running, return_exceptions=True)
    try:
        await eventually(lambda: not processes(seat), "the processes are gone")
    finally:
        kill_marked(mark_in(path))
    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path)
    async with asyncio.timeout(60):
        while roles_and_finishes(await again.workspace.messages(session)) != [("user", "stop")]:
            await asyncio.sleep(0.05)
    (message,) = await again.workspace.messages(session)
    assert command_of(message)["output"] == "begun\n"
    assert command_of(message)["exit_code"] == 137
    assert ("Interrupted" in str(message)) is (how == "SIGKILL")
