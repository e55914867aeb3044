"""Background commands across the end of their server: who keeps them, who takes them, what is shown."""

import asyncio
import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import call, eventually
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command as harness_command
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.marked import GO, STAY, linux_only, marked_seat, processes
from tests.acceptance.test_jobs import begin, output_of
from tests.acceptance.test_shell import command_of, shell

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]

# A line for each file that the test makes; the last one ends it. `began` counts its starts.
TICKS = (
    "echo {} >>began; trap '' TERM INT HUP;"
    ' for n in one two three; do until [ -e "$n" ]; do sleep 0.02; done; echo "$n"; done; exit 7'
)


@linux_only
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
async def test_a_job_and_a_users_command_continue_across_a_restart(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject, how: str
) -> None:
    server = make_a_server(shape, env={"CRUSH_DRAIN": "0"})
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path, yolo=True)
    session, other = await seat.workspace.session(), await seat.workspace.session()
    shell_id = await begin(seat, session, TICKS.format("job"))
    running = shell(seat, other, TICKS.format("user"), term_width=80)
    (path / "one").touch()
    await until_prints(seat, session, shell_id, "Status: running\n\none")
    await until_stored(seat, other, "one\n")
    await asyncio.to_thread(server.stop if how == "SIGTERM" else server.kill9)
    (answer,) = await asyncio.gather(running, return_exceptions=True)
    assert isinstance(answer, Exception)
    done = await asyncio.to_thread(harness_command, server.env, "ps", "--json")
    shown = [(each["kind"], each["state"]) for each in json.loads(done.out)["commands"]]
    assert shown == [("job", "kept"), ("user command", "kept")]
    (path / "two").touch()
    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path, yolo=True)
    await until_prints(again, session, shell_id, "Status: running\n\none\ntwo")
    await until_stored(again, other, "one\ntwo\n")
    listed = await again.workspace.client.http.call(
        "GET", f"/api/workspaces/{again.workspace.id}/jobs"
    )
    assert [(job["id"], job["state"]) for job in listed["items"]] == [(shell_id, "running")]
    (path / "three").touch()
    shown = await output_of(again, session, shell_id, wait=True)
    assert shown["content"] == "Status: ended with exit code 7\n\none\ntwo\nthree"
    await until_stored(again, other, "one\ntwo\nthree\n", is_over=True)
    (message,) = await again.workspace.messages(other)
    assert command_of(message)["exit_code"] == 7
    assert "Interrupted" not in str(message)
    assert sorted((path / "began").read_text().split()) == ["job", "user"]
    await eventually(lambda: not processes(again), "nothing is left")


@linux_only
async def test_what_ends_without_a_server_is_reported_by_the_next_one(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path, yolo=True)
    session = await seat.workspace.session()
    brief = await begin(seat, session, TICKS.format("brief"))
    flood = await begin(seat, session, f"echo top; {GO}; seq 3000000; echo bottom")
    await seat.workspace.prompt(session, call("bash", command=STAY, description="test"))
    await eventually(lambda: len(processes(seat)) >= 5, "the command in the foreground runs")
    await asyncio.to_thread(server.kill9)
    for name in ("one", "two", "three", "go"):
        (path / name).touch()
    await eventually(lambda: not processes(seat), "they have ended")
    kept = list((server.data_dir / "commands").iterdir())
    assert [file.stat().st_mode & 0o777 for file in kept] == [0o600, 0o600]
    assert max(file.stat().st_size for file in kept) < 31_000
    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path, yolo=True)
    other = await again.workspace.session()
    shown = await output_of(again, other, brief, wait=True)
    assert shown["content"] == "Status: ended with exit code 7\n\none\ntwo\nthree"
    content = (await output_of(again, other, flood, wait=True))["content"]
    assert content.startswith("Status: ended with exit code 0\n\ntop\n1\n")
    assert content.endswith("3000000\nbottom")
    (left_out,) = re.findall(r"([\d,]+) bytes left out", content)
    assert 22_858_907 <= int(left_out.replace(",", "")) < 22_858_950
    await eventually(lambda: not list((server.data_dir / "commands").iterdir()), "tidied up")


@linux_only
async def test_without_its_file_a_command_ends(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path, yolo=True)
    session = await seat.workspace.session()
    shell_id = await begin(seat, session, f"echo begun; {STAY}")
    await eventually(lambda: len(processes(seat)) >= 3, "it runs")
    await asyncio.to_thread(server.stop)
    assert len(processes(seat)) >= 3
    for file in (server.data_dir / "commands").iterdir():
        file.unlink()
    await eventually(lambda: not processes(seat), "it has ended")
    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path, yolo=True)
    shown = await output_of(again, session, shell_id, wait=True)
    assert shown["content"].startswith("Status: lost")
    assert shown["content"].endswith("begun")


@linux_only
async def test_without_a_server_for_too_long_a_command_ends(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED, env={"CRUSH_KEEP_COMMANDS": "1"})
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path, yolo=True)
    session = await seat.workspace.session()
    shell_id = await begin(seat, session, f"echo begun; {STAY}")
    await eventually(lambda: len(processes(seat)) >= 3, "it runs")
    await asyncio.to_thread(server.kill9)
    await eventually(lambda: not processes(seat), "it has ended")
    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path, yolo=True)
    shown = await output_of(again, session, shell_id, wait=True)
    assert shown["content"].startswith("Status: ended with exit code 137\n\nbegun\n")
    assert "no server took it over in time" in shown["content"]


async def until_stored(seat: Seat, session: str, output: str, *, is_over: bool = False) -> None:
    """Until the session's only message, a command, is stored with this output."""
    async with asyncio.timeout(60):
        while True:
            for message in await seat.workspace.messages(session):
                finish = roles_and_finishes([message])[0][1]
                if command_of(message)["output"] == output and (finish is not None) == is_over:
                    return
            await asyncio.sleep(0.1)


async def until_prints(seat: Seat, session: str, shell_id: str, content: str) -> None:
    async with asyncio.timeout(60):
        while (await output_of(seat, session, shell_id))["content"] != content:
            await asyncio.sleep(0.1)
