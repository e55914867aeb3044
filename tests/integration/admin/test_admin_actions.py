"""What can be done in the admin goes through the actions and is told of in the log."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from agents.models import Run, SubAgent
from agents.states import SubAgentState
from people.models import AuditEntry
from permissions.models import Grant, PermissionRequest
from tests.integration.admin.conftest import Place
from tests.integration.admin.test_pages import address
from workspaces.log.timestamps import now_ms
from workspaces.models import ClientClaim, Event, Message, Session, Workspace


def act(client: Client, model: type, action: str, *keys: object) -> str:
    answer = client.post(
        address(model, "changelist"), {"action": action, "_selected_action": keys}, follow=True
    )
    assert answer.status_code == 200
    return " ".join(str(message) for message in answer.context["messages"])


def test_cancelling_a_session_ends_its_run_with_both_messages(
    admin_client: Client, place: Place
) -> None:
    assert "1 prompt cancelled" in act(admin_client, Session, "cancel", place.session_id)
    run = Run.objects.get()
    assert (run.state, run.outcome) == ("finished", "cancelled")
    assert list(Message.objects.order_by("position").values_list("role", flat=True)) == [
        "user",
        "assistant",
    ]
    assert Event.objects.filter(kind="run.finished").count() == 1
    assert not Session.objects.get().is_busy


def test_cancelling_a_run_cancels_its_session(admin_client: Client, place: Place) -> None:
    act(admin_client, Run, "cancel", place.run_key)
    assert Run.objects.get().outcome == "cancelled"


def test_cancelling_twice_says_that_there_was_nothing(admin_client: Client, place: Place) -> None:
    act(admin_client, Run, "cancel", place.run_key)
    assert "Nothing was running" in act(admin_client, Run, "cancel", place.run_key)
    assert Event.objects.filter(kind="run.finished").count() == 1


def test_a_release_lets_go_and_closes_when_the_work_has_ended(
    admin_client: Client, place: Place
) -> None:
    said = act(admin_client, Workspace, "release", place.workspace_id)
    assert "released from 1 client, open until its work has ended" in said
    assert not ClientClaim.objects.exists()
    assert Workspace.objects.get().is_open
    act(admin_client, Run, "cancel", place.run_key)
    assert not Workspace.objects.get().is_open


def test_a_release_of_an_idle_workspace_closes_it(admin_client: Client, place: Place) -> None:
    act(admin_client, Run, "cancel", place.run_key)
    assert "closed" in act(admin_client, Workspace, "release", place.workspace_id)
    assert Event.objects.filter(kind="workspace.closed").count() == 1


def test_a_revoked_permission_is_gone(admin_client: Client, everything: Place) -> None:
    act(admin_client, Grant, "revoke", Grant.objects.get().pk)
    assert not Grant.objects.exists()
    assert Event.objects.filter(kind="grant.revoked").count() == 1
    entry = AuditEntry.objects.get(act="revoke grant")
    assert (entry.actor, entry.outcome) == ("admin", "done")


def test_the_author_of_an_answer_is_shown(admin_client: Client, everything: Place) -> None:
    request = PermissionRequest.objects.get()
    author = {"kind": "user", "name": "ann", "user_id": "7", "via": "socket"}
    PermissionRequest.objects.update(state="allowed", author=author, reason="why not")
    page = admin_client.get(address(PermissionRequest, "change", request.pk)).content.decode()
    assert "ann" in page
    assert "why not" in page


@pytest.fixture
def reader(db: None, client: Client) -> Client:
    """Somebody who may look and not act."""
    user = User.objects.create_user("reader", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    client.force_login(user)
    return client


def test_who_may_only_look_is_offered_no_action(reader: Client, place: Place) -> None:
    page = reader.get(address(Session, "changelist"))
    assert page.status_code == 200
    assert b'value="cancel"' not in page.content
    reader.post(
        address(Session, "changelist"), {"action": "cancel", "_selected_action": place.session_id}
    )
    assert Run.objects.get().state == "accepted"


def test_a_sub_agent_is_listed_with_its_parent_and_age_and_stopped_by_a_cancel(
    admin_client: Client, place: Place
) -> None:
    Session.objects.update(parent_session_id="the-parents-session")
    SubAgent.objects.create(
        run_id=place.run_key,
        workspace_id=place.workspace_id,
        role="reader",
        child_id="child-1",
        state=SubAgentState.RUNNING,
        last_event="tool_start",
        started_at=now_ms() - 65_000,
    )
    Run.objects.update(kind="fleet")
    page = admin_client.get(address(SubAgent, "changelist")).content.decode()
    for shown in ("the-parents-session", "0:01:", "tool_start", "reader child-1"):
        assert shown in page

    assert "1 prompt cancelled" in act(admin_client, SubAgent, "stop", place.run_key)

    stopped = SubAgent.objects.get()
    assert (stopped.state, stopped.ending) == ("ended", "cancelled")
    assert stopped.ended_at is not None
