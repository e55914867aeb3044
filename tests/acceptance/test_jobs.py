"""Background jobs through a running server: begun, moved, read, ended, and never orphaned."""

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call, eventually, metadata_of, results, run_call, until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.processes import kill_marked
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.marked import GO, STAY, linux_only, mark_in, marked_seat, processes
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]


@pytest.fixture
async def seat(shared_server: Server, connect: Connect, project: MakeProject) -> Seat:
    """In a workspace that asks nothing, whose processes can be found by their environment."""
    return await marked_seat(connect(shared_server), project(uuid.uuid4().hex), yolo=True)


def background(command: str) -> str:
    return call("bash", command=command, description="test", run_in_background=True)


async def begin(seat: Seat, session: str, command: str) -> str:
    """The id of a job that runs."""
    result = await run_call(seat, session, background(command))
    metadata = metadata_of(result)
    assert metadata["background"] is True, result
    return str(metadata["shell_id"])


async def output_of(seat: Seat, session: str, shell_id: str, **more: Any) -> dict[str, Any]:
    return await run_call(seat, session, call("job_output", shell_id=shell_id, **more))


async def test_a_job_outlives_its_call_and_can_be_read_awaited_and_ended(seat: Seat) -> None:
    path = seat.workspace.path
    session = await seat.workspace.session()
    result = await run_call(seat, session, background(f"echo first; {GO}; echo second; exit 3"))
    metadata = metadata_of(result)
    shell_id = metadata["shell_id"]
    assert shell_id in result["content"]
    assert result["is_error"] is False
    assert {
        name: metadata[name] for name in ("description", "working_directory", "background")
    } == {
        "description": "test",
        "working_directory": str(path),
        "background": True,
    }
    assert metadata["start_time"] <= metadata["end_time"]
    assert metadata["output"] in {"first", ""}

    async def with_words() -> dict[str, Any] | None:
        shown = await output_of(seat, session, shell_id)
        return shown if shown["content"].endswith("first") else None

    shown = await until(with_words, "what it has printed is shown")
    assert shown["content"] == "Status: running\n\nfirst"
    assert metadata_of(shown) == {
        "shell_id": shell_id,
        "command": f"echo first; {GO}; echo second; exit 3",
        "description": "test",
        "done": False,
        "working_directory": str(path),
    }
    start = seat.stream.mark()
    await seat.workspace.prompt(session, call("job_output", shell_id=shell_id, wait=True))
    (path / "go").touch()
    await seat.stream.run_complete(session, start=start)
    waited = results(await seat.workspace.messages(session))[-1]
    assert waited["content"] == "Status: ended with exit code 3\n\nfirst\nsecond"
    assert metadata_of(waited)["done"] is True
    killed = await run_call(seat, session, call("job_kill", shell_id=shell_id))
    assert (killed["is_error"], "had already ended" in killed["content"]) == (False, True)
    # Another session of the workspace knows it; another workspace does not, nor is one made up.
    other = await seat.workspace.session()
    assert (await output_of(seat, other, shell_id))["content"] == waited["content"]
    unknown = await output_of(seat, session, "nowhere")
    assert unknown["is_error"] is True
    assert "no job 'nowhere'" in unknown["content"]
    assert seat.stream.of("permission_request") == []


@linux_only
async def test_a_job_ends_with_all_its_processes(seat: Seat) -> None:
    session = await seat.workspace.session()
    shell_id = await begin(seat, session, f"trap '' TERM INT HUP; echo begun; {STAY}")
    await eventually(lambda: len(processes(seat)) >= 3, "it runs")
    killed = await run_call(seat, session, call("job_kill", shell_id=shell_id))
    assert killed["is_error"] is False
    assert processes(seat) == []
    metadata = metadata_of(killed)
    assert (metadata["shell_id"], metadata["done"]) == (shell_id, True)
    shown = await output_of(seat, session, shell_id)
    assert shown["content"] == "Status: killed\n\nbegun"


async def test_a_job_that_fails_at_once_is_reported_at_once(seat: Seat) -> None:
    session = await seat.workspace.session()
    for _ in range(20):  # at once is half a second, which a busy machine may not keep
        result = await run_call(seat, session, background("echo broken; exit 7"))
        if "exit code 7" in result["content"]:
            break
    assert "broken" in result["content"]
    assert "exit code 7" in result["content"]
    shell_id = metadata_of(result)["shell_id"]
    shown = await output_of(seat, session, shell_id)
    assert shown["content"] == "Status: ended with exit code 7\n\nbroken"


async def test_a_command_that_takes_long_moves_to_the_background(seat: Seat) -> None:
    session = await seat.workspace.session()
    command = f"echo first; {GO}; echo second"
    for seconds in (1, 4, 16):  # a busy machine takes a while to start a shell
        prompt = call("bash", command=command, description="test", auto_background_after=seconds)
        metadata = metadata_of(await run_call(seat, session, prompt))
        if metadata["output"]:
            break
    assert (metadata["background"], metadata["output"]) == (True, "first")
    assert metadata["end_time"] - metadata["start_time"] >= 1000
    shell_id = metadata["shell_id"]
    (seat.workspace.path / "go").touch()
    shown = await output_of(seat, session, shell_id, wait=True)
    assert shown["content"] == "Status: ended with exit code 0\n\nfirst\nsecond"
    quick = call("bash", command="echo quick", description="test", auto_background_after=30)
    metadata = metadata_of(await run_call(seat, session, quick))
    assert metadata.keys() == {
        "start_time",
        "end_time",
        "output",
        "description",
        "working_directory",
    }


@linux_only
async def test_a_cancel_ends_the_foreground_command_and_keeps_background_jobs(seat: Seat) -> None:
    session = await seat.workspace.session()
    shell_id = await begin(seat, session, f"{GO}; echo done")
    behind = len(processes(seat))
    await seat.workspace.prompt(session, call("bash", command=STAY, description="test"), "front")
    await eventually(lambda: len(processes(seat)) >= behind + 3, "it runs")
    await seat.workspace.cancel(session)
    assert (await seat.stream.run_complete(session, "front"))["cancelled"] is True
    # And a cancel while a call waits for the job's end ends the wait alone.
    await seat.workspace.prompt(session, call("job_output", shell_id=shell_id, wait=True), "waits")
    await seat.stream.wait_for(lambda e: "job_output" in str(e.payload) and e.finish == "tool_use")
    await seat.workspace.cancel(session)
    assert (await seat.stream.run_complete(session, "waits"))["cancelled"] is True
    shown = await output_of(seat, session, shell_id)
    assert shown["content"].startswith("Status: running")
    (seat.workspace.path / "go").touch()
    shown = await output_of(seat, session, shell_id, wait=True)
    assert shown["content"] == "Status: ended with exit code 0\n\ndone"


@linux_only
async def test_jobs_end_with_their_workspace(seat: Seat) -> None:
    session = await seat.workspace.session()
    shell_id = await begin(seat, session, f"trap '' TERM INT HUP; echo begun; {STAY}")
    await eventually(lambda: len(processes(seat)) >= 3, "it runs")
    await seat.workspace.release()
    await eventually(lambda: not processes(seat), "they are gone")
    again = await take_seat(seat.workspace.client, seat.workspace.path, yolo=True)
    shown = await output_of(again, session, shell_id)
    assert shown["content"] == "Status: killed\n\nbegun"


async def test_their_number_and_their_output_are_bounded(seat: Seat, shared_server: Server) -> None:
    log = LogWatch(shared_server)
    session = await seat.workspace.session()
    flood = await begin(seat, session, "echo top; seq 300000; echo bottom; sleep 987")

    def all_printed(content: str) -> bool:
        return content.endswith("bottom")

    async with asyncio.timeout(60):
        while not all_printed((await output_of(seat, session, flood))["content"]):
            await asyncio.sleep(0.1)
    content = (await output_of(seat, session, flood))["content"]
    assert content.startswith("Status: running\n\ntop\n1\n")
    assert "bytes left out" in content
    assert len(content) < 31_000
    many = " ;; ".join(
        'bash {"command": "sleep 987", "description": "d", "run_in_background": true}'
        for _ in range(20)
    )
    start = seat.stream.mark()
    await seat.workspace.prompt(session, f"[[calls={many}]] [[n=3]]")
    await seat.stream.run_complete(session, timeout=120, start=start)
    last = results(await seat.workspace.messages(session))[-20:]
    assert [result["is_error"] for result in last] == [False] * 19 + [True]
    assert "no more are allowed" in last[-1]["content"]
    assert log.loud() == []


async def test_clients_see_what_a_tool_prints_while_it_runs(seat: Seat) -> None:
    session = await seat.workspace.session()
    native = await NativeSse(seat.workspace.client.http, seat.workspace.id).open()
    try:
        command = f"echo first; {GO}; echo second"
        await seat.workspace.prompt(session, call("bash", command=command, description="test"))
        output = await native.wait_for(lambda item: item.type == "tool.output")
        messages = await seat.workspace.messages(session)
        (called,) = [
            (message["id"], part["data"]["id"])
            for message in messages
            for part in message["parts"]
            if part["type"] == "tool_call"
        ]
        assert output.body["data"] == {
            "session_id": session,
            "message_id": called[0],
            "tool_call_id": called[1],
            "text": "first\n",
        }
        assert "number" not in output.body  # never in the log
        (seat.workspace.path / "go").touch()
        await seat.stream.run_complete(session)
    finally:
        await native.close()


@linux_only
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
async def test_with_the_setting_no_job_outlives_its_server_and_the_next_server_reports_its_end(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject, how: str
) -> None:
    server = make_a_server(
        shape, env={"CRUSH_SERVER_DETACH_GRACE": "60", "CRUSH_KEEP_COMMANDS": "0"}
    )
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path, yolo=True)
    session = await seat.workspace.session()
    shell_id = await begin(seat, session, f"trap '' TERM INT HUP; echo begun; {STAY}")
    await eventually(lambda: len(processes(seat)) >= 3, "it runs")
    await asyncio.to_thread(server.stop if how == "SIGTERM" else server.kill9)
    try:
        await eventually(lambda: not processes(seat), "the processes are gone")
    finally:
        kill_marked(mark_in(path))
    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path, yolo=True)
    status = "killed" if how == "SIGTERM" else "lost"

    async def content() -> str:
        return str((await output_of(again, session, shell_id))["content"])

    async with asyncio.timeout(60):
        while not (content_now := await content()).startswith(f"Status: {status}"):
            await asyncio.sleep(0.1)
    assert content_now.endswith("begun")
    shown = await output_of(again, session, shell_id, wait=True)
    assert metadata_of(shown)["done"] is True


@linux_only
async def test_a_job_whose_supervisors_died_with_the_server_is_ended_by_the_next_one(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path, yolo=True)
    session = await seat.workspace.session()
    shell_id = await begin(seat, session, STAY)
    await eventually(lambda: len(processes(seat)) >= 3, "it runs")
    supervisors = _supervisors_above(processes(seat), below=server.pids()[0])
    assert len(supervisors) >= 2
    try:
        # Stopped first, so that none of them sees another's end and tidies up.
        for number in (19, 9):
            for pid in [*server.pids(), *supervisors]:
                os.kill(pid, number)
        await asyncio.to_thread(server.kill9)
        assert len(processes(seat)) >= 3
        await asyncio.to_thread(server.start)
        await eventually(lambda: not processes(seat), "the next server has ended them")
    finally:
        kill_marked(mark_in(path))
    again = await take_seat(connect(server), path, yolo=True)

    async def is_lost() -> bool:
        shown = await output_of(again, session, shell_id)
        return bool(shown["content"].startswith("Status: lost"))

    await until(is_lost, "it is told as lost")


def _supervisors_above(pids: list[int], *, below: int) -> set[int]:
    """The processes between the server and its commands."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # a shell that forked has ended meanwhile
            while (pid := _parent(pid)) not in {0, 1, below}:
                found.add(pid)
    return found - set(pids)


def _parent(pid: int) -> int:
    line = Path(f"/proc/{pid}/stat").read_text()
    return int(line[line.rindex(")") + 2 :].split()[1])
