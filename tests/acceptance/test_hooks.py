"""Hooks before tools: they allow, deny, rewrite, add to what the model is told, and hang."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.calling import (
    bash,
    call,
    eventually,
    metadata_of,
    permission_request,
    results,
    run_call,
)
from tests.acceptance.conversation import roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


def hooks(*commands: str, matcher: str = "", timeout: int = 60) -> dict[str, Any]:
    made = [{"command": command, "matcher": matcher, "timeout": timeout} for command in commands]
    return {"hooks": {"PreToolUse": made}}


def answering(**answer: Any) -> str:
    """A hook that gives this answer to every call."""
    return f"cat > /dev/null; echo '{json.dumps(answer)}'"


async def test_a_hook_that_allows_replaces_the_permission_request(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("allow", **hooks(answering(decision="allow"), matcher="^bash$"))
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    await run_call(seat, session, bash("touch made.txt"))
    assert (path / "made.txt").exists()
    assert seat.stream.of("permission_request") == []

    await seat.workspace.prompt(session, call("write", file_path="b.txt", content="x"))
    request = await permission_request(seat, session)  # the matcher leaves other tools alone
    await seat.workspace.grant(request, "deny")


async def test_a_hook_that_denies_gives_the_model_its_reason_and_the_turn_continues(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("deny", **hooks("echo 'not on a Friday' >&2; exit 2"))
    seat = await take_seat(connect(shared_server), path, yolo=True)
    session = await seat.workspace.session()

    result = await run_call(seat, session, bash("touch made.txt"))

    assert result["is_error"]
    assert "not on a Friday" in result["content"]
    assert not (path / "made.txt").exists()
    assert metadata_of(result)["hook"]["decision"] == "deny"
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages)[-1] == ("assistant", "end_turn")


async def test_a_rewritten_input_is_requested_shown_and_run(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    rewriting = answering(updated_input={"command": "touch rewritten.txt"})
    path = project("rewrite", **hooks(rewriting))
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    await seat.workspace.prompt(session, bash("touch original.txt"))
    request = await permission_request(seat, session)
    assert request["params"]["command"] == "touch rewritten.txt"
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)

    assert (path / "rewritten.txt").exists()
    assert not (path / "original.txt").exists()
    made = (await seat.workspace.messages(session))[1]["parts"][0]["data"]
    assert json.loads(made["input"])["command"] == "touch rewritten.txt"


async def test_context_that_a_hook_adds_reaches_the_model(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("context", **hooks(answering(decision="allow", context="mind the gap")))
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    result = await run_call(seat, session, bash("echo hello"))

    assert result["content"].endswith("mind the gap")


async def test_a_hook_that_hangs_is_killed_and_ignored(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("hang", **hooks("sleep 600", timeout=1))
    seat = await take_seat(connect(shared_server), path, yolo=True)
    session = await seat.workspace.session()

    result = await run_call(seat, session, bash("touch made.txt"))

    assert not result["is_error"]
    assert (path / "made.txt").exists()


async def test_a_cancel_reaches_a_turn_that_waits_for_its_hook(
    shared_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    path = project("cancelled-hook", **hooks(f"touch {begun}; sleep 600", timeout=600))
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made.txt"))
    await eventually(begun.exists, "the hook runs")

    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session)

    assert complete["cancelled"] is True
    assert not (path / "made.txt").exists()


async def test_a_hook_runs_once_though_the_run_was_parked(
    shared_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    path = project("once", **hooks(f"echo permission_request >> {count}"))
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made.txt"))
    await seat.workspace.grant(await permission_request(seat, session))
    await seat.stream.run_complete(session)

    assert (path / "made.txt").exists()
    assert count.read_text().splitlines() == ["permission_request"]
    assert results(await seat.workspace.messages(session))[0]["is_error"] is False


async def test_a_hook_sees_the_call_and_none_of_the_servers_secrets(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    tmp_path: Path,
    model: ScriptedModel,
) -> None:
    seen, env = tmp_path / "seen", tmp_path / "env"
    path = project("sees", **hooks(f"cat > {seen}; env > {env}"))
    seat = await take_seat(connect(shared_server), path, yolo=True)
    session = await seat.workspace.session()

    await run_call(seat, session, bash("echo hello"))

    seen_input = json.loads(seen.read_text())
    assert seen_input["tool_name"] == "bash"
    assert seen_input["tool_input"]["command"] == "echo hello"
    assert seen_input["session_id"] == session
    assert "CRUSH_TOOL_NAME=bash" in env.read_text()
    assert "DATABASE_URL" not in env.read_text()
