"""What happens to requests and questions without an answer, by the policy of their workspace."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from django.db import connection

from agents.runs.answer import settle_overdue
from agents.runs.children.delegations import begin_delegation
from agents.runs.lease import Lease
from agents.tools.contract import UserQuestions
from permissions.actions.overdue import deny_overdue, notify_overdue, overdue_workspaces
from permissions.actions.policies import PolicyTimes, set_policy
from permissions.models import ApprovalPolicy, Grant, PermissionRequest, QuestionBatch
from tests.integration.log.writing import in_thread
from tests.integration.runs.answering import ANN, answer, check, request_of, waiting
from tests.integration.runs.ground import Ground, open_ground, run_of, step, write
from workspaces.log.commits import run_alone
from workspaces.log.errors import BadField
from workspaces.log.reader import stop_reading
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Workspace

ASKED = UserQuestions(({"id": "q", "type": "yes_no", "question": "?"},))


@pytest_asyncio.fixture
async def writing(ground: Ground) -> AsyncIterator[None]:
    """The writer of this process."""
    writer.start(loop=asyncio.get_running_loop())
    yield
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


def set_times(ground: Ground, notify: int | None = None, deny: int | None = None) -> None:
    times = PolicyTimes(notify, deny)
    write(lambda tx: set_policy(tx, ground.workspace_id, times, actor=ANN))


def open_questions(held: Lease, call_id: str = "q") -> None:
    write(lambda tx: begin_delegation(tx, held, ASKED, message_id="m", call_id=call_id))


def let_time_pass(seconds: int) -> None:
    """Moves what is stored into the past, as if the server had not run meanwhile."""
    for model in (PermissionRequest, QuestionBatch):
        for row in model.objects.all():
            for name in ("asked_at", "notify_at", "deny_at"):
                if getattr(row, name) is not None:
                    setattr(row, name, getattr(row, name) - seconds * 1000)
            row.save()


def test_without_a_policy_requests_wait(ground: Ground) -> None:
    held = waiting(ground, "c", "q")
    check(held)
    open_questions(held)
    let_time_pass(10**6)
    assert overdue_workspaces(now_ms()) == []


def test_a_request_is_denied_and_questions_are_dismissed_when_their_time_is_over(
    ground: Ground,
) -> None:
    set_times(ground, deny=60)
    held, other = waiting(ground, "c"), waiting(ground, "q")
    check(held)
    open_questions(other)
    step(held, parks=True)
    step(other, parks=True)
    let_time_pass(59)
    assert overdue_workspaces(now_ms()) == []
    let_time_pass(2)
    assert overdue_workspaces(now_ms()) == [ground.workspace_id]
    resumed = write(lambda tx: deny_overdue(tx, ground.workspace_id))
    assert resumed == [held.key, other.key]
    assert request_of(held).reason.startswith("There was no answer within 60 s.")
    for kind, state in (("permission.resolved", "denied"), ("question.resolved", "dismissed")):
        (resolved,) = ground.events(kind)
        assert (resolved["author"]["kind"], resolved["state"]) == ("policy", state)
    assert not answer(held, actor=ANN).is_first


async def test_a_worker_carries_it_out_and_the_run_resumes_in_a_closed_workspace(
    ground: Ground, writing: None
) -> None:
    def prepare() -> Lease:
        set_times(ground, deny=60)
        held = waiting(ground, "c")
        check(held)
        step(held, parks=True)
        let_time_pass(61)
        Workspace.objects.update(is_open=False)
        return held

    held = await in_thread(prepare)
    await settle_overdue()
    assert (await in_thread(run_of, held.key)).state == "ready"
    assert (await in_thread(Workspace.objects.get)).is_open


def test_a_policy_also_counts_for_what_is_open_already(ground: Ground) -> None:
    held = waiting(ground, "c", "q")
    check(held)
    open_questions(held)
    set_times(ground, notify=30, deny=60)
    for row in (request_of(held), QuestionBatch.objects.get()):
        assert (row.notify_at, row.deny_at) == (row.asked_at + 30_000, row.asked_at + 60_000)
    set_times(ground)
    assert (request_of(held).notify_at, request_of(held).deny_at) == (None, None)
    first, second = ground.events("approval_policy.changed")
    assert first["policy"]["deny_after_seconds"] == 60
    assert second["policy"]["author"] == ANN.author()
    assert str(ApprovalPolicy.objects.get()) == "wait"


def test_a_policy_is_for_its_own_workspace(ground: Ground) -> None:
    other = open_ground("/other")
    set_times(other, deny=60)
    held = waiting(ground, "c")
    check(held)
    assert request_of(held).deny_at is None


def test_a_notification_is_due_once(ground: Ground) -> None:
    set_times(ground, notify=60)
    held = waiting(ground, "c", "q")
    check(held)
    open_questions(held)
    let_time_pass(61)
    assert write(lambda tx: notify_overdue(tx, ground.workspace_id)) == 2
    assert write(lambda tx: notify_overdue(tx, ground.workspace_id)) == 0
    assert overdue_workspaces(now_ms()) == []
    (overdue,) = ground.events("permission.overdue")
    assert overdue == {
        "request_id": request_of(held).pk,
        "session_id": held.session_id,
        "tool_call_id": "c",
        "waiting_seconds": 61,
    }
    assert len(ground.events("question.overdue")) == 1
    assert request_of(held).state == "pending"


def test_a_request_that_was_answered_is_not_notified_about(ground: Ground) -> None:
    set_times(ground, notify=60)
    held = waiting(ground, "c")
    check(held)
    let_time_pass(61)
    answer(held)
    assert write(lambda tx: notify_overdue(tx, ground.workspace_id)) == 0


@pytest.mark.parametrize("times", [(0, None), (None, 0), (None, 31 * 24 * 3600)])
def test_times_that_are_too_short_or_too_long_are_refused(times: Any) -> None:
    with pytest.raises(BadField):
        PolicyTimes(*times)


def test_of_several_workers_one_denies(ground: Ground) -> None:
    set_times(ground, notify=1, deny=60)
    calls = [str(number) for number in range(30)]
    held = waiting(ground, *calls)
    for call_id in calls:
        check(held, call_id)
    let_time_pass(61)
    workers = 4
    together = threading.Barrier(workers)
    denied: list[int] = []

    def job(tx: Transaction) -> list[int]:
        return deny_overdue(tx, ground.workspace_id)

    def work() -> None:
        try:
            together.wait(30)
            denied.append(len(run_alone(ground.workspace_id, job)[0]))
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(denied) == [0, 0, 0, len(calls)]
    assert len(ground.events("permission.resolved")) == len(calls)


async def test_expired_grants_are_removed(ground: Ground, writing: None) -> None:
    def add(expires_at: int | None) -> None:
        Grant.objects.create(
            workspace_id=ground.workspace_id,
            tool_name="t",
            action="a",
            path="/p",
            expires_at=expires_at,
        )

    for expires_at in (None, now_ms() - 1, now_ms() + 10**6):
        await in_thread(add, expires_at)
    await settle_overdue()
    assert await in_thread(Grant.objects.count) == 2
