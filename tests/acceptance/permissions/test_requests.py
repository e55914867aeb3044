"""Which tool calls need a permission request."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import (
    bash,
    call,
    eventually,
    permission_request,
    results,
    run_call,
    write,
)
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


async def test_a_workspace_opened_with_yolo_sends_no_requests(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("yolo")
    seat = await take_seat(connect(shared_server), path, yolo=True)
    assert await seat.workspace.skips_permissions() is True
    session = await seat.workspace.session()
    await run_call(seat, session, bash("touch made.txt"))
    assert (path / "made.txt").exists()
    assert seat.stream.of("permission_request") == []


async def test_skipping_is_switched_while_the_workspace_is_open(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("switched")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.skip_permissions(True)
    await run_call(seat, session, bash("touch one.txt"))
    assert seat.stream.of("permission_request") == []
    await seat.workspace.skip_permissions(False)
    assert await seat.workspace.skips_permissions() is False
    await seat.workspace.prompt(session, bash("touch two.txt"))
    request = await permission_request(seat, session)
    assert not (path / "two.txt").exists()
    await seat.workspace.grant(request)
    await eventually((path / "two.txt").exists, "the command ran")


async def test_tools_that_the_configuration_allows_need_no_permission(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("allowed", permissions={"allowed_tools": ["bash", "edit:write", "write:read"]})
    (path / "a.txt").write_text("one\n")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await run_call(seat, session, bash("touch made.txt"))
    await run_call(seat, session, call("view", file_path="a.txt"))
    edited = await run_call(
        seat, session, call("edit", file_path="a.txt", old_string="one", new_string="two")
    )
    assert not edited["is_error"], edited
    assert (path / "a.txt").read_text() == "two\n"
    assert seat.stream.of("permission_request") == []
    # Neither another tool nor another action of the same tool is meant by that.
    await seat.workspace.prompt(session, call("write", file_path="b.txt", content="x"))
    request = await permission_request(seat, session)
    assert (request["tool_name"], request["action"]) == ("write", "write")
    await seat.workspace.grant(request, "deny")


async def test_writing_protected_files_always_needs_permission(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    allowing = 'cat > /dev/null; echo \'{"decision": "allow"}\''
    path = project(
        "protected",
        permissions={"allowed_tools": ["write", "bash"]},
        hooks={"PreToolUse": [{"command": allowing, "matcher": "write"},
                              {"command": "./guard.sh", "matcher": "nothing"}]},
    )  # fmt: skip
    (path / "guard.sh").write_text("#!/bin/sh\n")
    (path / "way").symlink_to(path / ".git")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await run_call(seat, session, write("plain.txt"))
    assert seat.stream.of("permission_request") == []
    await run_call(seat, session, call("view", file_path="guard.sh"))
    for name in (
        ".git/hooks/pre-commit",
        "way/config",
        ".crush.json",
        ".envrc",
        ".agents/skills/x/SKILL.md",
        "guard.sh",
    ):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, write(name))
        await seat.workspace.grant(await permission_request(seat, session, start=start), "deny")
        await seat.stream.run_complete(session, start=start)
    # Allowing for the session allows this once.
    for _ in range(2):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, write(".envrc"))
        await seat.workspace.grant(
            await permission_request(seat, session, start=start), "allow_session"
        )
        await seat.stream.run_complete(session, start=start)
        (path / ".envrc").unlink()
    await seat.workspace.skip_permissions(True)
    count = len(seat.stream.of("permission_request"))
    await run_call(seat, session, write(".envrc"))
    assert (path / ".envrc").exists()
    assert len(seat.stream.of("permission_request")) == count


async def test_each_call_of_one_reply_has_its_own_request(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("several")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    pair = " ;; ".join(
        f'bash {{"command": "touch {name}", "description": "t"}}' for name in ("a", "b")
    )
    await seat.workspace.prompt(session, f"[[calls={pair}]] [[n=2]]", "several")
    start = 0
    for name in ("a", "b"):
        request = await permission_request(seat, session, start=start)
        assert request["params"]["command"] == f"touch {name}"
        start = seat.stream.mark()
        assert await seat.workspace.grant(request) is True
    assert "error" not in await seat.stream.run_complete(session, "several")
    assert (path / "a").exists()
    assert (path / "b").exists()


@pytest.mark.parametrize(
    ("command", "needs_permission"),
    [
        ("ls -la", False),
        ("cat crush.json", False),
        ("git status; git log | head", False),
        ("echo hi", False),
        ("echo hi > out.txt", True),
        ("cat crush.json | tee out.txt", True),
        ("ls && touch out.txt", True),
        ("ls $(touch out.txt)", True),
        ("ls `touch out.txt`", True),
        ("env touch out.txt", True),
        ("find . -delete", True),
        ("ls\ntouch out.txt", True),
        ("cat <(touch out.txt)", True),
    ],
)
async def test_only_commands_that_cannot_write_run_without_permission(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    command: str,
    needs_permission: bool,
) -> None:
    path = project("commands")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash(command), "run")
    if needs_permission:
        request = await permission_request(seat, session)
        assert request["params"]["command"] == command
        assert sorted(p.name for p in path.iterdir() if p.name != ".crush") == ["crush.json"]
        await seat.workspace.grant(request, "deny")
    await seat.stream.run_complete(session, "run")
    assert len(seat.stream.of("permission_request")) == int(needs_permission)


async def test_paths_are_checked_after_resolving_their_links(
    shared_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret\n")
    path = project("links")
    (path / "out").symlink_to(outside)
    (path / "file").symlink_to(outside / "secret.txt")
    (path / "inner").mkdir()
    (path / "in").symlink_to(path / "inner")
    seat = await take_seat(connect(shared_server), path)
    for prompt, tool, target in [
        (call("view", file_path="out/secret.txt"), "view", outside / "secret.txt"),
        (call("view", file_path="file"), "view", outside / "secret.txt"),
        (call("view", file_path="inner/../../../outside/secret.txt"), "view", None),
        (call("ls", path="out"), "ls", outside),
        (call("write", file_path="out/new.txt", content="x"), "write", outside / "new.txt"),
        (call("bash", command="touch x", description="", working_dir="out"), "bash", outside),
    ]:
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, prompt)
        request = await permission_request(seat, session)
        assert request["tool_name"] == tool
        if target is not None:
            assert request["path"] == str(target)
        await seat.workspace.grant(request, "deny")
        await seat.stream.run_complete(session)
    assert [file.name for file in outside.iterdir()] == ["secret.txt"]
    # Inside it stays inside.
    session = await seat.workspace.session()
    await run_call(seat, session, call("ls", path="in"))
    assert seat.stream.of("permission_request", session) == []


async def test_a_link_that_changes_while_the_request_is_open_is_not_followed(
    shared_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    path, outside = project("turned"), tmp_path / "elsewhere"
    outside.mkdir()
    (path / "inner").mkdir()
    (path / "link").symlink_to(path / "inner")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, call("write", file_path="link/x.txt", content="x"))
    request = await permission_request(seat, session)
    (path / "link").unlink()
    (path / "link").symlink_to(outside)
    log = LogWatch(shared_server)
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)
    assert list(outside.iterdir()) == []
    assert results(await seat.workspace.messages(session))[-1]["is_error"] is True
    assert log.loud() == []
