"""Background commands across the end of their server: who keeps them, who takes them, what is shown."""

import asyncio
import json
import re
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import bash, call, eventually, permission_request
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command as harness_command
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.marked import GO, STAY, linux_only, marked_seat, processes
from tests.acceptance.serve.test_access import attacks, check, prepared
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


# Waits for each of two files, and carries out what is in the script of the same name then.
TWO_ATTACKS = "for n in one two; do until [ -e $n ]; do sleep 0.02; done; sh $n.sh; done"

# Runs commands of the server's program, and writes their exit codes and errors.
COMMANDS = """
import json, os, subprocess, sys
root, result = sys.argv[1:]
asked = json.load(open("commands.json"))
found = []
for arguments in asked["commands"]:
    line = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        line, env=asked["env"], cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    found.append([done.returncode, done.stderr])
with open(result + ".new", "w") as file:
    json.dump(found, file)
os.replace(result + ".new", result)
"""

FOR_PERSONS = [
    ["token", "create", "mine"],
    ["user", "add", "mallory", "--no-password"],
    ["createsuperuser", "--noinput", "--username", "mallory", "--email", "m@example.org"],
    ["changepassword", "mallory"],
    ["shell", "--command", "1"],
    ["secret-key", "--accept"],
]
WITHOUT_A_SERVER = [
    ["prompt", "--wait", "--yolo", "[[n=1]]"],
    ["sessions"],
    ["trust", "--revoke", "/"],
]


@linux_only
async def test_a_command_does_not_answer_for_a_person_after_a_restart(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env={"CRUSH_DRAIN": "0"})
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path, yolo=True)
    await begin(seat, await seat.workspace.session(), TWO_ATTACKS)
    await asyncio.to_thread(server.stop)
    (path / "commands.py").write_text(COMMANDS)
    run_commands = f"{sys.executable} commands.py {ROOT}"

    refused = [*FOR_PERSONS, *(WITHOUT_A_SERVER if shape is Shape.EMBEDDED else [])]
    (path / "commands.json").write_text(json.dumps({"env": server.env, "commands": refused}))
    (path / "one.sh").write_text(f"{run_commands} stopped.json")
    (path / "one").touch()
    await eventually((path / "stopped.json").exists, "it has tried without a server")
    check_refused(path / "stopped.json", len(refused))

    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path)
    await again.workspace.skip_permissions(False)
    session = await again.workspace.session()
    await again.workspace.prompt(session, bash("touch made"))
    request = await permission_request(again, session)
    base = f"/v1/workspaces/{again.workspace.id}"
    grant = ("POST", f"{base}/permissions/grant", {"permission": request, "action": "allow"})
    requests = [grant, *attacks(base, session)]
    result, attack = prepared(path, requests, server.url.removeprefix("http://"), "daemon")
    (path / "commands.json").write_text(json.dumps({"env": server.env, "commands": FOR_PERSONS}))
    (path / "two.sh").write_text(f"{run_commands} running.json; {attack}")
    (path / "two").touch()
    await eventually(result.exists, "it has tried with a server")
    check_refused(path / "running.json", len(FOR_PERSONS))
    first, *others = json.loads(result.read_text())
    assert first[0] == 403, first
    result.write_text(json.dumps(others))
    check(result)
    assert not (path / "made").exists()
    assert await again.workspace.grant(request, "allow")
    await eventually((path / "made").exists, "the person's answer counts")


def check_refused(result: Path, count: int) -> None:
    found = json.loads(result.read_text())
    assert len(found) == count
    for code, error in found:
        assert code != 0, error
        assert "A tool of the server may not" in error, error


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
