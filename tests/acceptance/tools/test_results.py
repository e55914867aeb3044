"""What each tool does and returns, and the permission requests that clients show for it."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import (
    bash,
    call,
    metadata_of,
    permission_request,
    run_call,
)
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


@pytest.fixture
async def seat(shared_server: Server, connect: Connect, project: MakeProject) -> Seat:
    """In a workspace that asks nothing."""
    return await take_seat(connect(shared_server), project(uuid.uuid4().hex), yolo=True)


async def ask_only(seat: Seat, prompt: str) -> dict[str, Any]:
    """The permission request of one call in a session of its own, which is then denied."""
    await seat.workspace.skip_permissions(False)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, prompt)
    request = await permission_request(seat, session)
    await seat.workspace.grant(request, "deny")
    await seat.stream.run_complete(session)
    await seat.workspace.skip_permissions(True)
    return request


async def test_bash_reports_output_times_and_folder(seat: Seat) -> None:
    path = seat.workspace.path
    session = await seat.workspace.session()
    result = await run_call(seat, session, bash("echo out; echo err >&2; pwd"))
    assert result["name"] == "bash"
    assert result["is_error"] is False
    assert result["content"] == f"out\nerr\n{path}"
    metadata = metadata_of(result)
    assert metadata["output"] == result["content"]
    assert metadata["description"] == "test"
    assert metadata["working_directory"] == str(path)
    assert metadata["start_time"] <= metadata["end_time"]
    assert metadata["start_time"] > 1_600_000_000_000  # milliseconds
    failed = await run_call(seat, session, bash("echo partly; exit 3"))
    assert "partly" in failed["content"]
    assert "Exit code 3" in failed["content"]
    silent = await run_call(seat, session, bash("true"))
    assert silent["content"] == "no output"
    request = await ask_only(seat, bash("touch x"))
    assert request["action"] == "execute"
    assert request["path"] == str(path)
    assert request["description"] == "Execute command: touch x"
    assert request["params"] == {
        "command": "touch x",
        "description": "test",
        "working_dir": "",
        "run_in_background": False,
        "auto_background_after": 0,
    }


async def test_bash_output_of_any_kind_is_stored_and_bounded(
    seat: Seat, shared_server: Server
) -> None:
    log = LogWatch(shared_server)
    session = await seat.workspace.session()
    for command in (
        r"printf 'a\377\376b\000c'",
        "head -c 3000000 /dev/zero | tr '\\0' x",
        "head -c 200000 /dev/urandom",
        "yes | head -n 500000",
        r"printf '\033[31mred\033[0m\r\n\r\n'",
        r"printf '\355\240\200'",
        "echo hi; exec 1>&-; sleep 0",
    ):
        result = await run_call(seat, session, bash(command))
        assert len(result["content"]) < 200_000
        metadata_of(result)
    assert log.loud() == []


async def test_a_file_is_viewed_edited_and_its_versions_are_kept(seat: Seat) -> None:
    path = seat.workspace.path
    file = path / "a.txt"
    file.write_text("alpha\nbeta\ngamma\n")
    session = await seat.workspace.session()
    viewed = await run_call(seat, session, call("view", file_path="a.txt", offset=1, limit=1))
    assert "beta" in viewed["content"]
    assert "alpha" not in viewed["content"]
    assert metadata_of(viewed) == {"file_path": str(file), "content": "beta"}
    edited = await run_call(
        seat, session, call("edit", file_path="a.txt", old_string="beta", new_string="BETA\nmore")
    )
    assert metadata_of(edited) == {
        "additions": 2,
        "removals": 1,
        "old_content": "alpha\nbeta\ngamma\n",
        "new_content": "alpha\nBETA\nmore\ngamma\n",
    }
    many = [
        {"old_string": "alpha", "new_string": "ALPHA"},
        {"old_string": "nowhere", "new_string": "x"},
    ]
    multi = await run_call(seat, session, call("multiedit", file_path=str(file), edits=many))
    metadata = metadata_of(multi)
    assert metadata["edits_applied"] == 1
    (failure,) = metadata["edits_failed"]
    assert set(failure) == {"index", "error", "edit"}
    assert failure["edit"]["old_string"] == "nowhere"
    assert metadata["new_content"] == "ALPHA\nBETA\nmore\ngamma\n" == file.read_text()
    written = await run_call(
        seat, session, call("write", file_path="new/deep.txt", content="made\n")
    )
    metadata = metadata_of(written)
    assert set(metadata) == {"diff", "additions", "removals"}
    assert (metadata["additions"], metadata["removals"]) == (1, 0)
    assert "+made" in metadata["diff"]
    # Every state that a file had is a version, from the one before the first change on.
    history = await seat.workspace.history(session)
    deep = str(path / "new" / "deep.txt")
    assert [(row["Path"], row["Version"], row["Content"]) for row in history] == [
        (str(file), 0, "alpha\nbeta\ngamma\n"),
        (str(file), 1, "alpha\nBETA\nmore\ngamma\n"),
        (str(file), 2, "ALPHA\nBETA\nmore\ngamma\n"),
        (deep, 0, ""),
        (deep, 1, "made\n"),
    ]
    payloads = [e.payload for e in seat.stream.of("file", session)]
    assert [(row["path"], row["version"], row["content"]) for row in payloads] == [
        (row["Path"], row["Version"], row["Content"]) for row in history
    ]
    assert {e.action for e in seat.stream.of("file", session)} == {"created"}
    read = await seat.workspace.call("GET", f"/sessions/{session}/filetracker/files")
    assert read == [str(file), deep]


async def test_a_permission_request_shows_the_whole_change(seat: Seat) -> None:
    path = seat.workspace.path
    (path / "a.txt").write_text("one\n")
    session = await seat.workspace.session()
    await run_call(seat, session, call("view", file_path="a.txt"))
    await seat.workspace.skip_permissions(False)
    for prompt, tool in [
        (call("edit", file_path="a.txt", old_string="one", new_string="two"), "edit"),
        (
            call(
                "multiedit", file_path="a.txt", edits=[{"old_string": "one", "new_string": "two"}]
            ),
            "multiedit",
        ),
        (call("write", file_path="a.txt", content="two\n"), "write"),
    ]:
        start = seat.stream.mark()
        await seat.workspace.prompt(session, prompt)
        request = await permission_request(seat, session, start=start)
        assert (request["tool_name"], request["action"]) == (tool, "write")
        assert request["path"] == str(path)
        assert request["params"] == {
            "file_path": str(path / "a.txt"),
            "old_content": "one\n",
            "new_content": "two\n",
        }
        await seat.workspace.grant(request, "deny")
        await seat.stream.run_complete(session, start=start)
    assert (path / "a.txt").read_text() == "one\n"


async def test_a_file_is_not_changed_unread_nor_after_somebody_else_changed_it(
    seat: Seat,
) -> None:
    file = seat.workspace.path / "a.txt"
    file.write_text("one\n")
    session, other = await seat.workspace.session(), await seat.workspace.session()
    edit = call("edit", file_path="a.txt", old_string="one", new_string="two")
    await run_call(seat, other, call("view", file_path="a.txt"))  # read, but not in our session
    for prompt in (edit, call("write", file_path="a.txt", content="two")):
        refused = await run_call(seat, session, prompt)
        assert refused["is_error"] is True
        assert "not been read" in refused["content"]
    await run_call(seat, session, call("view", file_path="a.txt"))
    file.write_text("one\nand more\n")
    refused = await run_call(seat, session, edit)
    assert refused["is_error"] is True
    assert "changed since" in refused["content"]
    assert file.read_text() == "one\nand more\n"
    assert await seat.workspace.history(session) == []
    # A client that has read the file itself says so.
    await seat.workspace.call(
        "POST", "/filetracker/read", {"session_id": session, "path": str(file)}
    )
    assert (await run_call(seat, session, edit))["is_error"] is False
    assert file.read_text() == "two\nand more\n"
    moment = await seat.workspace.call(
        "GET", "/filetracker/lastread", params={"session_id": session, "path": str(file)}
    )
    assert moment.startswith("20")
    never = await seat.workspace.call(
        "GET", "/filetracker/lastread", params={"session_id": session, "path": "other"}
    )
    assert never == "0001-01-01T00:00:00Z"


async def test_listing_and_searching_report_how_much_they_found(seat: Seat) -> None:
    path = seat.workspace.path
    (path / "src").mkdir()
    for number in range(3):
        (path / "src" / f"f{number}.py").write_text(f"needle {number}\nhay\n")
    session = await seat.workspace.session()
    listed = await run_call(seat, session, call("ls", path="src"))
    assert metadata_of(listed) == {"number_of_files": 3, "truncated": False}
    globbed = await run_call(seat, session, call("glob", pattern="**/*.py"))
    assert metadata_of(globbed) == {"number_of_files": 3, "truncated": False}
    found = await run_call(seat, session, call("grep", pattern="needle", include="*.py"))
    assert metadata_of(found) == {"number_of_matches": 3, "truncated": False}
    assert "f1.py" in found["content"]
    outside = await ask_only(seat, call("ls", path="/usr"))
    assert (outside["action"], outside["path"]) == ("list", "/usr")
    assert outside["params"] == {"path": "/usr", "ignore": [], "depth": 0}
    outside = await ask_only(seat, call("view", file_path="/etc/hostname"))
    assert (outside["action"], outside["path"]) == ("read", "/etc/hostname")
    assert outside["params"] == {"file_path": "/etc/hostname", "offset": 0, "limit": 200}


async def test_todos_belong_to_the_session_and_report_what_changed(seat: Seat) -> None:
    session = await seat.workspace.session()
    todo = {"content": "dig", "status": "in_progress", "active_form": "Digging"}
    first = await run_call(seat, session, call("todos", todos=[todo]))
    assert metadata_of(first) == {
        "is_new": True,
        "todos": [todo],
        "just_started": "Digging",
        "completed": 0,
        "total": 1,
    }
    second = await run_call(seat, session, call("todos", todos=[todo | {"status": "completed"}]))
    metadata = metadata_of(second)
    assert metadata["is_new"] is False
    assert metadata["just_completed"] == ["dig"]


async def test_every_tool_call_gets_a_result(
    seat: Seat, shared_server: Server, tmp_path: Path
) -> None:
    """Wrong arguments, unknown tools, and files whose names are no text."""
    path = seat.workspace.path
    log = LogWatch(shared_server)
    raw = os.fsencode(path) + b"/\xff\xfe.txt"
    Path(os.fsdecode(raw)).write_text("needle in bytes\n")
    (path / "link").symlink_to(os.fsdecode(raw))
    (path / "binary").write_bytes(b"\x7fELF\0\0\0\1")
    (path / "folder").mkdir()
    os.mkfifo(path / "pipe")
    session = await seat.workspace.session()
    prompts = [
        "[[badargs]] [[n=2]]",
        call("nosuchtool", a=1),
        call("bash"),
        call("bash", command=7, description=[]),
        call("bash", command="", description=""),
        call("bash", command="x" * 300_000, description="x"),
        call("bash", command="echo \0", description="x"),
        call("bash", command="pwd", description="x", working_dir="nowhere"),
        call("bash", command="pwd", description="x", run_in_background=True),
        call("view", file_path="nowhere"),
        call("view", file_path="folder"),
        call("view", file_path="pipe"),
        call("view", file_path="binary"),
        call("view", file_path="link"),
        call("view", file_path="x" * 5000),
        call("view", file_path="\0"),
        call("view", file_path="crush.json", offset=10**12),
        call("view", file_path="crush.json", offset=-1),
        call("view", file_path="/proc/self/environ"),
        call("view", file_path="/dev/zero"),
        call("write", file_path="link", content="x"),
        call("write", file_path="folder", content="x"),
        call("write", file_path="crush.json/below", content="x"),
        call("write", file_path="/proc/nope", content="x"),
        call("edit", file_path="link", old_string="needle", new_string="x"),
        call("multiedit", file_path="a", edits=[]),
        call("multiedit", file_path="a", edits=7),
        call("ls", path="nowhere"),
        call("ls", path="crush.json"),
        call("ls"),
        call("ls", ignore=["["] * 10),
        call("glob", pattern="*.txt"),
        call("glob", pattern="[" * 1000),
        call("glob", pattern="**/" * 500),
        call("glob", pattern="../../*"),
        call("grep", pattern="needle"),
        call("grep", pattern="("),
        call("grep", pattern="(a+)+$"),
        call("grep", pattern="needle", path="link"),
        call("todos", todos=[{"content": "x", "status": "nope"}]),
        call("todos", todos={}),
    ]
    for prompt in prompts:
        result = await run_call(seat, session, prompt)
        assert result["content"], prompt[:200]
        assert "Traceback" not in result["content"]
        assert " failed: " not in result["content"], (prompt[:200], result["content"])
    assert log.loud() == []
