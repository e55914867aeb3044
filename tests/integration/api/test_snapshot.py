"""What a native client that attaches late learns from the snapshot."""

from typing import Any

import orjson

from agents.runs.cancel import cancel
from permissions.actions.questions import add_questions, dismiss_batch
from permissions.actions.requests import AnswerOptions, answer_request, request_permission
from permissions.models import PermissionRequest, QuestionBatch
from tests.acceptance.folding import Fold, differences
from tests.integration.api.conftest import Opened
from tests.integration.api.test_prompts import prompt
from workspaces.delivery.event_log import read_events
from workspaces.log.reader import read
from workspaces.log.writer import writer


async def snapshot_of(workspace: Opened) -> dict[str, Any]:
    snapshot: dict[str, Any] = await workspace.api.get(f"/api/workspaces/{workspace.id}/snapshot")
    assert differences(await folded(workspace), snapshot) == []
    return snapshot


async def folded(workspace: Opened) -> Fold:
    """The state of a client that has read the whole log."""
    fold = Fold()
    for event in await read(read_events, workspace.id, after=0):
        data = orjson.loads(event.payload_json)
        fold.take({"number": event.number, "type": event.kind, "data": data})
    return fold


async def ask(workspace: Opened, session_id: str, name: str) -> str:
    return await writer.write(
        workspace.id,
        lambda tx: request_permission(
            tx,
            workspace.id,
            session_id,
            run_key=1,
            tool_call_id=f"call {name}",
            tool_name="bash",
            action="execute",
            path="/",
            description=name,
            params={"command": name},
        ),
    )


async def ask_question(workspace: Opened, session_id: str) -> str:
    question = {"id": "q", "type": "yes_no", "question": "Go?"}
    return await writer.write(
        workspace.id,
        lambda tx: add_questions(
            tx,
            workspace.id,
            session_id,
            run_key=1,
            tool_call_id="c",
            questions=[question],
            confirm_title="Sure?",
        ),
    )


async def test_a_snapshot_of_an_idle_workspace_has_nothing_open(workspace: Opened) -> None:
    await workspace.session()
    snapshot = await snapshot_of(workspace)
    assert (snapshot["permissions"], snapshot["questions"], snapshot["runs"]) == ([], [], [])


async def test_a_snapshot_shows_open_permission_requests_until_they_are_answered(
    workspace: Opened,
) -> None:
    session_id = await workspace.session()
    first, second = [await ask(workspace, session_id, name) for name in ("first", "second")]
    shown = (await snapshot_of(workspace))["permissions"]
    assert [request["id"] for request in shown] == [first, second]
    assert shown[0] == (await folded(workspace)).requests[first]
    assert shown[0]["params"] == {"command": "first"}

    def answer(tx: Any) -> bool:
        request = PermissionRequest.objects.get(pk=first)
        return answer_request(tx, request, granted=True, options=AnswerOptions())

    await writer.write(workspace.id, answer)
    assert [each["id"] for each in (await snapshot_of(workspace))["permissions"]] == [second]


async def test_a_snapshot_shows_open_questions_until_they_are_answered(workspace: Opened) -> None:
    batch_id = await ask_question(workspace, await workspace.session())
    (batch,) = (await snapshot_of(workspace))["questions"]
    assert batch == (await folded(workspace)).batches[batch_id]
    assert (batch["confirm_title"], batch["questions"][0]["question"]) == ("Sure?", "Go?")

    await writer.write(
        workspace.id, lambda tx: dismiss_batch(tx, QuestionBatch.objects.get(pk=batch_id))
    )
    assert (await snapshot_of(workspace))["questions"] == []


async def test_a_snapshot_shows_the_runs_that_have_not_ended(workspace: Opened) -> None:
    one, other = await workspace.session(), await workspace.session()
    await prompt(workspace, one, "a" * 3_000, run_id="r1")
    await prompt(workspace, one, "b")
    await prompt(workspace, other, "c")
    first, second, third = (await snapshot_of(workspace))["runs"]
    assert first == {
        "key": first["key"],
        "session_id": one,
        "accept_number": 1,
        "run_id": "r1",
        "prompt": "a" * 2_000,
        "state": "accepted",
        "author": {"kind": "owner", "name": "owner", "user_id": None},
    }
    assert (second["prompt"], second["accept_number"]) == ("b", 2)
    assert third["session_id"] == other

    await cancel(workspace.id, one)
    assert [run["key"] for run in (await snapshot_of(workspace))["runs"]] == [third["key"]]


async def test_a_snapshot_shows_nothing_of_another_workspace(
    workspace: Opened, tmp_path: Any
) -> None:
    session_id = await workspace.session()
    await prompt(workspace, session_id)
    await ask(workspace, session_id, "x")
    await ask_question(workspace, session_id)
    folder = tmp_path / "other"
    folder.mkdir()
    body = {"path": str(folder), "client_id": workspace.client_id}
    other = (await workspace.api.post("/v1/workspaces", body))["id"]
    snapshot = await workspace.api.get(f"/api/workspaces/{other}/snapshot")
    assert (snapshot["permissions"], snapshot["questions"], snapshot["runs"]) == ([], [], [])
