"""Whoever changes what can be done wakes the workers, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from agents.runs import accept, answer, cancel, nudges, teardown
from agents.runs.accept import Prompt
from agents.runs.calls.permission_check import check_call
from agents.runs.children.delegations import begin_delegation
from agents.runs.lease import Lease
from agents.runs.teardown import cancel_and_wait
from agents.tools.contract import RequiredPermission, UserQuestions
from permissions.models import PermissionRequest, QuestionBatch
from tests.integration.log.writing import in_thread
from tests.integration.runs.ground import Ground, end, run_of, say, write
from workspaces.log.errors import ShuttingDown
from workspaces.log.reader import stop_reading
from workspaces.log.writer import writer
from workspaces.models import ClientClaim, Session, TrustRequest, Workspace

ACCEPTED = {"type": "run.accepted"}


@pytest.fixture
def held(ground: Ground) -> Lease:
    """A run that waits for a permission and for an answer."""
    held = ground.start("go", run_id="r", client_id="c")
    say(held, calls=["c", "d"])
    question = RequiredPermission(
        "bash", "execute", "/project", "Execute command: x", {"command": "x"}
    )
    write(lambda tx: check_call(tx, held, question, call_id="c", allowed_tools=frozenset()))
    asked = UserQuestions(({"id": "q", "type": "free_text", "question": "?"},))
    write(lambda tx: begin_delegation(tx, held, asked, message_id="m", call_id="d"))
    return held


@pytest_asyncio.fixture
async def heard() -> AsyncIterator[list[dict[str, Any]]]:
    """What this process's worker hears, with the writer running."""
    messages: list[dict[str, Any]] = []
    nudges.listen_here(messages.append)
    writer.start(loop=asyncio.get_running_loop())
    yield messages
    nudges.stop_listening_here(messages.append)
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


async def test_a_prompt_wakes_a_worker(ground: Ground, heard: list[Any]) -> None:
    await accept.accept(ground.workspace_id, Prompt(ground.session_id, "go"))
    assert heard == [ACCEPTED]


async def test_a_summary_wakes_a_worker_if_there_is_something_to_summarise(
    ground: Ground, heard: list[Any]
) -> None:
    await accept.summarize(ground.workspace_id, ground.session_id)
    assert heard == []
    held = await in_thread(ground.start)
    await in_thread(say, held, "words")
    await in_thread(end, held)
    await accept.summarize(ground.workspace_id, ground.session_id)
    assert heard == [ACCEPTED]


async def test_an_answer_wakes_a_worker_once(ground: Ground, held: Lease, heard: list[Any]) -> None:
    given = {"request_id": "", "tool_call_id": "c", "answer": answer.Answer.ALLOW}
    assert (await answer.answer(ground.workspace_id, **given)).is_first
    assert heard == [ACCEPTED]
    assert not (await answer.answer(ground.workspace_id, **given)).is_first
    assert heard == [ACCEPTED]
    assert await in_thread(PermissionRequest.objects.filter(state="allowed").exists)


@pytest.mark.parametrize("is_dismissed", [False, True])
async def test_answered_questions_wake_a_worker_once(
    ground: Ground, held: Lease, heard: list[Any], is_dismissed: bool
) -> None:
    responses = [{"request_id": "q", "text": "words"}]
    give = (
        partial(answer.dismiss_questions, ground.workspace_id, "")
        if is_dismissed
        else partial(answer.answer_questions, ground.workspace_id, "", responses)
    )
    assert (await give()).is_first
    assert heard == [ACCEPTED]
    assert not (await give()).is_first
    assert heard == [ACCEPTED]
    assert not await in_thread(QuestionBatch.objects.filter(state="pending").exists)


async def test_a_cancel_reaches_the_worker_that_holds_the_run(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    other = await in_thread(ground.new_session)
    await cancel.cancel(ground.workspace_id, other)
    assert heard == []  # nothing runs there
    await cancel.cancel(ground.workspace_id, ground.session_id)
    assert heard == [{"type": "run.cancelled", "session_id": ground.session_id, "up_to": 1}]


async def test_a_deleted_session_reaches_the_worker_that_holds_its_run(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    await cancel.delete_session(ground.workspace_id, ground.session_id)
    assert heard == [{"type": "run.cancelled", "session_id": ground.session_id, "up_to": 1}]
    other = await in_thread(ground.new_session)
    await cancel.delete_session(ground.workspace_id, other)
    assert len(heard) == 1
    assert not await in_thread(Session.objects.filter(pk=other).exists)


async def test_a_client_that_retires_reaches_the_worker_that_holds_its_run(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    await teardown.retire("another")
    assert heard == []
    await teardown.retire("c")
    assert heard == [{"type": "run.cancelled", "keys": [held.key]}]


async def test_an_operators_cancel_reaches_the_worker_that_holds_the_run(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    other = await in_thread(ground.new_session)
    assert await in_thread(cancel_and_wait, ground.workspace_id, other) == 0
    assert heard == []
    assert await in_thread(cancel_and_wait, ground.workspace_id, ground.session_id) == 1
    assert heard == [{"type": "run.cancelled", "session_id": ground.session_id, "up_to": 1}]


async def test_a_client_that_releases_its_workspace_closes_it(
    ground: Ground, heard: list[Any]
) -> None:
    await teardown.release(ground.workspace_id, "c")
    assert not (await in_thread(Workspace.objects.get)).is_open


async def test_a_sweep_closes_what_nobody_holds_any_more(ground: Ground, heard: list[Any]) -> None:
    await in_thread(partial(ClientClaim.objects.update, expires_at=1))
    await teardown.sweep()
    assert not (await in_thread(Workspace.objects.get)).is_open


async def test_clearing_the_queue_wakes_nobody(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    queued = await in_thread(ground.accept, "waits")
    await cancel.clear_queue(ground.workspace_id, ground.session_id)
    assert heard == []
    assert (await in_thread(run_of, queued)).outcome == "cancelled"


@pytest.mark.parametrize("given", answer.Answer)
@pytest.mark.parametrize("by", ["request_id", "tool_call_id"])
async def test_an_answer_about_a_folders_trust_makes_its_configuration_count(
    ground: Ground, heard: list[Any], given: answer.Answer, by: str
) -> None:
    path = (await in_thread(Workspace.objects.get)).path
    request = TrustRequest(path=path, digest="d", description="?", params={}, asked_at=1)
    await in_thread(request.save)
    ids = {"request_id": request.pk, "tool_call_id": f"trust-{request.pk}"}
    named = {"request_id": "", by: ids[by]}

    assert (await answer.answer(ground.workspace_id, answer=given, **named)).is_first
    assert not (await answer.answer(ground.workspace_id, answer=given, **named)).is_first

    is_allowed = given is not answer.Answer.DENY
    answered = (await in_thread(TrustRequest.objects.get)).state
    assert answered == ("allowed" if is_allowed else "denied")
    (resolved,) = await in_thread(ground.events, "permission.resolved")
    assert resolved["granted"] is is_allowed
    assert len(await in_thread(ground.events, "config.changed")) == 1
    assert heard == []  # no run waits for it


@pytest.fixture
def stopping() -> Iterator[None]:
    accept.refuse_prompts(True)
    yield
    accept.refuse_prompts(False)


async def test_a_server_that_stops_accepts_nothing_although_it_still_writes(
    ground: Ground, heard: list[Any], stopping: None
) -> None:
    with pytest.raises(ShuttingDown):
        await accept.accept(ground.workspace_id, Prompt(ground.session_id, "go"))
    with pytest.raises(ShuttingDown):
        await accept.summarize(ground.workspace_id, ground.session_id)
    assert heard == []
    accept.refuse_prompts(False)
    await accept.accept(ground.workspace_id, Prompt(ground.session_id, "go"))
    assert heard == [ACCEPTED]
