"""A tool that may have had effects is cut by a crash: the configured rule decides what follows."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import bash, eventually, permission_request, results, until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.crash.ground import Connect, MakeProject, log_of, stored_outputs
from tests.acceptance.folding import Fold
from tests.acceptance.harness.shapes import Server

# The first run prints and waits; the second one finds its mark, and ends.
COMMAND = "echo $$ >> marks; echo half-way; [ $(wc -l < marks) = 2 ] || sleep 300"


async def crash(server: Server, connect: Connect, seat: Seat, path: Path) -> Seat:
    await asyncio.to_thread(server.kill9)
    await asyncio.to_thread(server.start)
    return await take_seat(connect(server), path, client_id=seat.workspace.client_id)


def marks(path: Path) -> list[str]:
    return (path / "marks").read_text().split()


async def cut(
    server: Server, connect: Connect, path: Path, *, yolo: bool = False, asks: bool = True
) -> tuple[Seat, str]:
    """The seat after a crash in the middle of the command, and the session."""
    seat = await take_seat(connect(server), path, yolo=yolo)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash(COMMAND), "cut")
    if asks and not yolo:
        request = await permission_request(seat, session)
        assert await seat.workspace.grant(request) is True
    await eventually(lambda: "half-way" in "".join(stored_outputs(server)), "its output is stored")
    return await crash(server, connect, seat, path), session


async def ended(
    server: Server, connect: Connect, seat: Seat, session: str
) -> tuple[dict[str, Any], Fold]:
    """The result of the cut call and the whole log, after the end of its run."""

    async def is_over() -> bool:
        return not (await seat.workspace.get_session(session))["is_busy"]

    await until(is_over, "the end of the run")
    fold = await log_of(connect(server), seat.workspace)
    fold.check_runs()
    (result,) = results(await seat.workspace.messages(session))
    return result, fold


@pytest.mark.parametrize("action", ["allow", "deny"])
async def test_a_person_decides_whether_a_cut_call_runs_again(
    gated_server: Server, connect: Connect, project: MakeProject, action: str
) -> None:
    path = project(permissions={"cut_calls": {"bash": "ask"}})
    seat, session = await cut(gated_server, connect, path)
    request = await permission_request(seat, session)
    assert request["description"].startswith("Run again? The outcome of its first run is unknown.")
    assert request["description"].endswith("Its output until then:\nhalf-way\n")
    assert request["params"]["command"] == COMMAND
    assert request["params"]["description"].startswith("Run again?")

    # The question stays open through another crash, and there is one.
    seat = await crash(gated_server, connect, seat, path)
    assert (await permission_request(seat, session)) == request
    (listed,) = (await seat.workspace.client.http.call("GET", "/api/approvals"))["items"]
    assert (listed["id"], listed["cut_output"]) == (request["id"], "half-way\n")
    assert len(marks(path)) == 1

    assert await seat.workspace.grant(request, action) is True
    result, fold = await ended(gated_server, connect, seat, session)
    if action == "allow":
        assert (result["content"].strip(), result["is_error"]) == ("half-way", False)
        assert len(marks(path)) == 2
    else:
        assert result["content"].startswith("The outcome of this call is unknown")
        assert "The user has decided not to run it again." in result["content"]
        assert result["content"].endswith("Its output until then:\nhalf-way\n")
        assert len(marks(path)) == 1
    assert fold.kinds["permission.requested"] == fold.kinds["permission.resolved"] == 2
    assert [run["outcome"] for run in fold.ends] == ["completed"]


async def test_a_hook_that_allows_every_call_allows_no_second_run(
    gated_server: Server, connect: Connect, project: MakeProject
) -> None:
    hook = {"command": """echo '{"decision": "allow"}'""", "matcher": "^bash$"}
    path = project(permissions={"cut_calls": {"*": "ask"}}, hooks={"PreToolUse": [hook]})
    seat, session = await cut(gated_server, connect, path, asks=False)
    request = await permission_request(seat, session)
    assert (request["tool_name"], request["action"]) == ("bash", "repeat")
    assert request["params"]["command"] == COMMAND
    assert len(marks(path)) == 1
    assert await seat.workspace.grant(request) is True
    result, _ = await ended(gated_server, connect, seat, session)
    assert result["content"].strip() == "half-way"
    assert len(marks(path)) == 2


async def test_in_a_workspace_that_requests_nothing_the_model_decides(
    gated_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project(permissions={"cut_calls": {"*": "ask"}})
    seat, session = await cut(gated_server, connect, path, yolo=True)
    result, fold = await ended(gated_server, connect, seat, session)
    assert result["content"].startswith("The outcome of this call is unknown")
    assert [run["outcome"] for run in fold.ends] == ["completed"]
    assert len(marks(path)) == 1


async def test_the_rule_interrupt_ends_the_run(
    gated_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project(permissions={"cut_calls": {"*": "ask", "bash": "interrupt"}})
    seat, session = await cut(gated_server, connect, path, yolo=True)
    result, fold = await ended(gated_server, connect, seat, session)
    assert result["content"].endswith("Its output until then:\nhalf-way\n")
    assert [run["outcome"] for run in fold.ends] == ["interrupted"]
    assert "permissions.cut_calls" in fold.ends[0]["error"]
    assert len(marks(path)) == 1
