"""Files through a running server: what models see of them, and what a change leaves as it was."""

import base64
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call, metadata_of, permission_request, results, run_call
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
async def seat(shared_server: Server, connect: Connect, project: MakeProject) -> Seat:
    """In a workspace that asks nothing."""
    return await take_seat(connect(shared_server), project(uuid.uuid4().hex), yolo=True)


async def test_an_image_is_sent_to_a_model_that_supports_images(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project(uuid.uuid4().hex)
    configured = json.loads((path / "crush.json").read_text())
    for one in configured["providers"]["fake"]["models"]:
        one["supports_attachments"] = True
    (path / "crush.json").write_text(json.dumps(configured))
    (path / "picture.txt").write_bytes(PNG)  # the bytes decide, not the name
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    shown = await run_call(seat, session, call("view", file_path="picture.txt"))
    assert shown["is_error"] is False
    assert (shown["mime_type"], base64.b64decode(shown["data"])) == ("image/png", PNG)
    # Its own request, by its folder: the model serves other tests as well.
    bodies = [model.request(entry["number"])["body"] for entry in model.served()[-50:]]
    own_bodies = [body for body in bodies if path.name in json.dumps(body)]
    (with_image,) = [body for body in own_bodies if shown["data"] in json.dumps(body)]
    assert with_image["messages"][-2]["role"] == "tool"  # and the image after it


async def test_an_image_is_mentioned_to_a_model_that_supports_none(seat: Seat) -> None:
    (seat.workspace.path / "picture.png").write_bytes(PNG)
    session = await seat.workspace.session()
    viewed = await run_call(seat, session, call("view", file_path="picture.png"))
    assert viewed["is_error"] is True
    assert "this model cannot see images" in viewed["content"]
    assert "data" not in viewed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\nrest\r\n", b"two\r\nrest\r\n"),
        (b"one\rrest\r", b"two\rrest\r"),
        ("\ufeffone\nrest\n".encode("utf-16-le"), "\ufefftwo\nrest\n".encode("utf-16-le")),
        ("one\nr\u00e9st\n".encode("latin-1"), "two\nr\u00e9st\n".encode("latin-1")),
        ("\ufeffone\n\u6f22\n".encode(), "\ufefftwo\n\u6f22\n".encode()),
    ],
)
async def test_a_change_keeps_line_ends_encoding_mode_and_links(
    seat: Seat, before: bytes, after: bytes
) -> None:
    path = seat.workspace.path
    file = path / "real.txt"
    file.write_bytes(before)
    file.chmod(0o750)
    (path / "link.txt").symlink_to("real.txt")
    session = await seat.workspace.session()
    await run_call(seat, session, call("view", file_path="link.txt"))
    edited = await run_call(
        seat, session, call("edit", file_path="link.txt", old_string="one", new_string="two")
    )
    assert edited["is_error"] is False
    assert file.read_bytes() == after
    assert file.stat().st_mode & 0o777 == 0o750
    assert (path / "link.txt").is_symlink()
    assert {p.name for p in path.iterdir()} <= {"real.txt", "link.txt", "crush.json", ".crush"}
    history = await seat.workspace.history(session)
    assert [row["Path"] for row in history] == [str(file)] * 2
    assert history[0]["Content"].startswith("one\n")
    assert history[1]["Content"] == metadata_of(edited)["new_content"]


async def test_a_change_by_another_program_is_a_version_too(seat: Seat) -> None:
    file = seat.workspace.path / "a.txt"
    file.write_text("one\n")
    session = await seat.workspace.session()
    for old, new in (("one", "two"), ("TWO", "three")):
        await run_call(seat, session, call("view", file_path="a.txt"))
        await run_call(
            seat, session, call("edit", file_path="a.txt", old_string=old, new_string=new)
        )
        file.write_text(file.read_text().upper())
    history = await seat.workspace.history(session)
    assert [(row["Version"], row["Content"]) for row in history] == [
        (0, "one\n"),
        (1, "two\n"),
        (2, "TWO\n"),
        (3, "three\n"),
    ]
    for row in history:
        assert set(row) == {
            "Content", "CreatedAt", "ID", "Path", "SessionID", "UpdatedAt", "Version"
        }  # fmt: skip
    events = seat.stream.of("file", session)
    assert [event.payload["version"] for event in events] == [0, 1, 2, 3]
    assert set(events[0].payload) == {
        "content", "created_at", "id", "path", "session_id", "updated_at", "version"
    }  # fmt: skip


async def test_files_outside_need_permission_even_through_a_link(
    seat: Seat, tmp_path: Path
) -> None:
    outside = (tmp_path / "outside").resolve()
    outside.mkdir()
    (outside / "secret.txt").write_text("needle\n")
    (seat.workspace.path / "way").symlink_to(outside)
    (seat.workspace.path / "file.txt").symlink_to(outside / "secret.txt")
    session = await seat.workspace.session()
    await run_call(
        seat, session, call("view", file_path="file.txt")
    )  # nothing is permission_request yet
    await seat.workspace.skip_permissions(False)
    expected: list[tuple[str, dict[str, Any], str, Path]] = [
        ("view", {"file_path": "way/secret.txt"}, "read", outside / "secret.txt"),
        ("view", {"file_path": "file.txt"}, "read", outside / "secret.txt"),
        ("ls", {"path": "way"}, "list", outside),
        ("glob", {"pattern": "*.txt", "path": "way"}, "list", outside),
        ("grep", {"pattern": "needle", "path": "way"}, "read", outside),
        ("grep", {"pattern": "needle", "path": "file.txt"}, "read", outside / "secret.txt"),
        ("edit", {"file_path": "file.txt", "old_string": "needle", "new_string": "x"}, "write",
         outside / "secret.txt"),
        ("write", {"file_path": "way/new.txt", "content": "x"}, "write", outside / "new.txt"),
    ]  # fmt: skip
    for tool, given, action, path in expected:
        start = seat.stream.mark()
        await seat.workspace.prompt(session, call(tool, **given))
        request = await permission_request(seat, session, start=start)
        assert (request["tool_name"], request["action"]) == (tool, action)
        assert request["path"] == str(path)
        await seat.workspace.grant(request, "deny")
        await seat.stream.run_complete(session, start=start)
        result = results(await seat.workspace.messages(session))[-1]
        assert "needle" not in result["content"]
        if action == "write":  # a person sees what they refused
            kept = json.loads(result["metadata"])
            assert kept["additions"] == 1
            assert kept["new_content"].strip() == "x"
            assert "+x" in kept["diff"]
    assert [entry.name for entry in outside.iterdir()] == ["secret.txt"]
    # Searching the workspace itself follows no link.
    found = await run_call(seat, session, call("grep", pattern="needle"))
    assert found["content"] == "No matches found."


async def test_grep_outside_the_workspace_works_when_allowed(seat: Seat, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("needle\n")
    session = await seat.workspace.session()
    found = await run_call(
        seat, session, call("grep", pattern="needle", path=str(tmp_path / "outside"))
    )
    assert "Line 1: needle" in found["content"]
