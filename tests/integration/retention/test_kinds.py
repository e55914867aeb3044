"""Which rows of each kind are old, and that the transactions delete these and no others."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as SignIn

from agents.models import Run, RunStep
from crushsite.retention.kinds import BATCH, Batch, RetentionKind, count_old, old_batches
from notifications.models import Delivery, Notice, NotificationChannel
from people.models import AuditEntry, BrowserSession, LoginLink, Token
from permissions.models import PermissionRequest
from workspaces.log.commits import run_alone
from workspaces.models import Event, IdempotencyKey, Message, RetiredClient, Session, Workspace
from workspaces.rest.idempotency import KEPT_MS

BEFORE = 1_700_000_000_000
OLD, YOUNG = BEFORE - 1, BEFORE
numbers = count(1)


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """On both databases."""


def new_workspace(path: str = "/project") -> Workspace:
    return Workspace.objects.create(path=path, data_dir=f"{path}/.crush")


def add_events(workspace: Workspace, *moments: int) -> None:
    for moment in moments:
        workspace.last_event += 1
        Event.objects.create(
            workspace=workspace,
            number=workspace.last_event,
            kind="config.changed",
            payload="{}",
            created_at=moment,
        )
    workspace.save()


def add_run(workspace: Workspace, state: str, **values: Any) -> Run:
    session = Session.objects.create(workspace=workspace, updated_at=YOUNG)
    return Run.objects.create(
        workspace=workspace, session=session, accept_number=1, state=state, **values
    )


def add_step(run: Run, ended_at: int) -> int:
    return RunStep.objects.create(
        run_key=run.pk, kind="call", name="view", started_at=0, ended_at=ended_at
    ).pk


def carry_out(batch: Batch) -> int:
    return run_alone(batch.workspace_id, batch.job)[0]


def prune(kind: RetentionKind, workspace: Workspace | None = None) -> list[int]:
    """Deletes what is old; returns how many rows each transaction has deleted."""
    only = workspace.pk if workspace is not None else None
    expected = count_old(kind, before=BEFORE, workspace_id=only)
    sizes = [carry_out(batch) for batch in old_batches(kind, before=BEFORE, workspace_id=only)]
    assert sum(sizes) == expected
    assert count_old(kind, before=BEFORE, workspace_id=only) == 0
    return sizes


def test_events_go_in_small_transactions() -> None:
    workspace = new_workspace()
    add_events(workspace, *[OLD] * (BATCH + 3), YOUNG)

    assert prune(RetentionKind.EVENTS) == [BATCH, 3]
    assert Event.objects.count() == 1


def test_events_of_another_workspace_stay() -> None:
    one, other = new_workspace("/one"), new_workspace("/other")
    add_events(one, OLD, OLD)
    add_events(other, OLD)

    assert prune(RetentionKind.EVENTS, one) == [2]
    assert list(Event.objects.values_list("workspace_id", flat=True)) == [other.pk]


@pytest.mark.parametrize(
    ("state", "kept"),
    [("running", 2), ("accepted", 2), ("ready", 2), ("parked", 0), ("finished", 0)],
)
def test_a_run_at_work_keeps_the_events_since_it_was_accepted(state: str, kept: int) -> None:
    workspace = new_workspace()
    add_events(workspace, OLD - 20, OLD - 10, OLD)
    add_run(workspace, state, accepted_at=OLD - 10)

    prune(RetentionKind.EVENTS)
    assert Event.objects.count() == kept


def test_steps_of_ended_runs_go_and_those_of_others_stay() -> None:
    workspace, other = new_workspace(), new_workspace("/other")
    ended = add_run(workspace, "finished")
    kept = [add_step(ended, YOUNG), add_step(add_run(workspace, "parked"), OLD)]
    elsewhere = add_step(add_run(other, "finished"), OLD)
    for _ in range(BATCH + 1):
        add_step(ended, OLD)

    assert prune(RetentionKind.STEPS, workspace) == [BATCH, 1]
    assert prune(RetentionKind.STEPS, workspace) == []
    assert sorted(RunStep.objects.values_list("pk", flat=True)) == sorted([*kept, elsewhere])


def add_notice(subject: str, subject_id: str, state: str, created_at: int = OLD) -> Notice:
    user, _ = User.objects.get_or_create(username="ada")
    channel, _ = NotificationChannel.objects.get_or_create(user=user, kind="email", name="mail")
    notice = Notice.objects.create(subject=subject, subject_id=subject_id, created_at=created_at)
    Delivery.objects.create(notice=notice, channel=channel, state=state, link_expires_at=0)
    return notice


def test_notices_go_with_their_deliveries_unless_something_is_open() -> None:
    run = add_run(new_workspace(), "parked")
    request = PermissionRequest.objects.create(
        workspace_id=run.workspace_id,
        session_id=run.session_id,
        run_key=run.pk,
        tool_call_id="c",
        tool_name="bash",
        action="execute",
        path="/project",
    )
    kept = {
        add_notice("permission", request.pk, "sent").pk,
        add_notice("run", "1", "pending").pk,
        add_notice("run", "2", "sent", YOUNG).pk,
    }
    add_notice("run", "3", "failed")
    add_notice("question", request.pk, "obsolete")  # the same id, but no request

    assert prune(RetentionKind.NOTICES) == [2]
    assert set(Notice.objects.values_list("pk", flat=True)) == kept
    assert set(Delivery.objects.values_list("notice_id", flat=True)) == kept


def test_what_is_no_longer_valid_goes_and_what_is_valid_stays() -> None:
    user = User.objects.create(username="ada")

    def token(**values: Any) -> str:
        return Token.objects.create(user=user, name="t", digest=str(next(numbers)), **values).pk

    def sign_in(at: int) -> str:
        key = f"key{next(numbers)}"
        moment = datetime.fromtimestamp(at / 1000, UTC)
        SignIn.objects.create(session_key=key, session_data="", expire_date=moment)
        BrowserSession.objects.create(session_key=key, user=user, created_at=OLD)
        return key

    valid = {token(), token(expires_at=YOUNG), token(revoked_at=YOUNG)}
    token(expires_at=OLD)
    token(revoked_at=OLD, expires_at=YOUNG)
    LoginLink.objects.create(digest="old", user=user, expires_at=OLD)
    LoginLink.objects.create(digest="young", user=user, expires_at=YOUNG)
    live, _ended = sign_in(YOUNG), sign_in(OLD)
    for name, at in (("old", OLD), ("young", YOUNG)):
        IdempotencyKey.objects.create(caller="c", key=name, digest="", created_at=at - KEPT_MS)
        RetiredClient.objects.create(client_id=name, retired_at=at)

    prune(RetentionKind.EXPIRED)

    assert set(Token.objects.values_list("pk", flat=True)) == valid
    assert LoginLink.objects.get().digest == "young"
    assert SignIn.objects.get().session_key == live
    assert BrowserSession.objects.get().session_key == live
    assert IdempotencyKey.objects.get().key == "young"
    assert RetiredClient.objects.get().client_id == "young"


def test_old_entries_of_the_audit_go() -> None:
    for at in (OLD, YOUNG):
        AuditEntry.objects.create(at=at, kind="owner", actor="ada", act="open")

    assert prune(RetentionKind.AUDIT) == [1]
    assert AuditEntry.objects.get().at == YOUNG


def test_sessions_go_one_at_a_time_with_what_they_contain() -> None:
    workspace = new_workspace()

    def session(**values: Any) -> Session:
        return Session.objects.create(workspace=workspace, **{"updated_at": OLD, **values})

    old = session()
    child = session(parent_session_id=old.pk)
    Message.objects.create(workspace=workspace, session=old, role="user", position=1)
    kept = {
        session(updated_at=YOUNG).pk,
        session(pinned_at=1).pk,
        session(is_busy=True).pk,
    }

    assert prune(RetentionKind.SESSIONS) == [1]

    assert set(Session.objects.values_list("pk", flat=True)) == kept
    assert Message.objects.count() == 0
    deleted = Event.objects.filter(kind="session.deleted").values_list("session_id", flat=True)
    assert set(deleted) == {old.pk, child.pk}


def test_a_session_that_was_used_meanwhile_stays() -> None:
    session = Session.objects.create(workspace=new_workspace(), updated_at=OLD)
    (batch,) = old_batches(RetentionKind.SESSIONS, before=BEFORE)
    Session.objects.update(updated_at=int(time.time() * 1000))

    assert carry_out(batch) == 0
    assert Session.objects.get() == session
