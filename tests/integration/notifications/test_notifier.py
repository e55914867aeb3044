"""Who is notified about what, how often a message is sent, and what its link does."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from notifications.channels import create_channel, delete_channel, own_channel, send_test
from notifications.links import AnswerLinkInvalid, link_of, open_link, use_link
from notifications.messages import NotificationMessage
from notifications.models import (
    ChannelKind,
    Delivery,
    DeliveryState,
    Notice,
    NotificationChannel,
)
from notifications.notifier import (
    ATTEMPTS,
    DISABLED_AFTER,
    ClaimedDelivery,
    claim_due,
    create_notices,
    store_attempt,
)
from notifications.senders import Sent, open_target
from people.actions.members import set_role
from people.models import AuditEntry
from permissions.actions.overdue import notify_overdue
from permissions.actions.policies import PolicyTimes, set_policy
from permissions.models import PermissionRequest
from tests.integration.runs.answering import answer, check, request_of, waiting
from tests.integration.runs.ground import Ground, open_ground, write
from workspaces.access import Actor, IdentityKind, MemberRole
from workspaces.actions.claims import attach_stream, set_current_session
from workspaces.log.errors import BadField
from workspaces.log.timestamps import now_ms
from workspaces.models import Workspace

CLIENT = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
URL = "https://hooks.example/crush"


@pytest.fixture
def ground(database: str) -> Ground:
    return open_ground()


def user(name: str, ground: Ground, role: MemberRole | None = MemberRole.APPROVER) -> User:
    row = User.objects.create(username=name, email=f"{name}@example.com")
    if role is not None:
        workspace = Workspace.objects.get(pk=ground.workspace_id)
        write(lambda tx: set_role(tx, user=row, workspace=workspace, role=role))
    return row


def channel(owner: User, **more: Any) -> NotificationChannel:
    fields = {"kind": ChannelKind.WEBHOOK, "target": {"url": URL}} | more
    return write(lambda tx: create_channel(tx, user=owner, **fields)).row


def overdue(ground: Ground) -> PermissionRequest:
    """Returns a request that has waited for the time of the policy."""
    write(lambda tx: set_policy(tx, ground.workspace_id, PolicyTimes(notify_after_seconds=60)))
    held = waiting(ground, "c")
    check(held)
    request = request_of(held)
    PermissionRequest.objects.filter(pk=request.pk).update(notify_at=now_ms() - 1)
    write(lambda tx: notify_overdue(tx, ground.workspace_id))
    request.held = held  # type: ignore[attr-defined]
    return request


def claimed() -> list[ClaimedDelivery]:
    ids = list(Delivery.objects.filter(state=DeliveryState.PENDING).values_list("pk", flat=True))
    return write(lambda tx: claim_due(tx, ids))


def attempt(one: ClaimedDelivery, sent: Sent) -> Delivery:
    write(lambda tx: store_attempt(tx, one, sent))
    return Delivery.objects.get(pk=one.id)


def test_users_who_may_answer_are_notified_once(ground: Ground) -> None:
    approver = channel(user("ann", ground))
    channel(user("bob", ground, MemberRole.VIEWER))
    channel(user("eve", ground, None))
    disabled = channel(user("dan", ground))
    NotificationChannel.objects.filter(pk=disabled.pk).update(is_enabled=False)
    request = overdue(ground)
    assert write(create_notices) == 1
    assert write(create_notices) == 0
    notice = Notice.objects.get()
    assert (notice.subject, notice.subject_id) == ("permission", request.pk)
    assert Delivery.objects.get().channel_id == approver.pk
    (message,) = [one.message for one in claimed()]
    assert (message.summary, message.path) == ("bash: execute", "/project")
    assert message.request_id == request.pk
    assert claimed() == []  # until the attempt ends, or its time is over


def test_a_channel_of_another_workspace_gets_nothing(ground: Ground) -> None:
    other = Workspace.objects.create(path="/other", data_dir="/other/.crush")
    channel(user("ann", ground), workspace=other)
    overdue(ground)
    assert write(create_notices) == 0


def test_nobody_is_notified_who_is_looking_at_the_session(ground: Ground) -> None:
    ann, bob = user("ann", ground), user("bob", ground)
    channel(ann)
    channel(bob)
    request = overdue(ground)
    write(lambda tx: attach_stream(tx, ground.workspace_id, CLIENT, holder="here"))
    show = {"session_id": request.session_id, "user_id": ann.pk}
    write(lambda tx: set_current_session(tx, ground.workspace_id, CLIENT, **show))
    write(create_notices)
    assert [row.channel.user_id for row in Delivery.objects.select_related("channel")] == [bob.pk]


def test_an_answered_request_is_not_sent(ground: Ground) -> None:
    channel(user("ann", ground))
    request = overdue(ground)
    write(create_notices)
    answer(request.held)  # type: ignore[attr-defined]
    assert claimed() == []
    assert Delivery.objects.get().state == DeliveryState.OBSOLETE


def test_a_failed_message_is_sent_again_and_finally_given_up(ground: Ground) -> None:
    row = channel(user("ann", ground))
    overdue(ground)
    write(create_notices)
    pauses = []
    for number in range(1, ATTEMPTS + 1):
        Delivery.objects.update(due_at=now_ms() - 1)
        (one,) = claimed()
        before = now_ms()
        delivery = attempt(one, Sent(False, 503, "The receiver answered with 503."))
        assert delivery.attempts == number
        pauses.append(round((delivery.due_at - before) / 1000))
    assert pauses[:4] == [10, 20, 40, 80]
    assert (delivery.state, delivery.status_code) == (DeliveryState.FAILED, 503)
    row.refresh_from_db()
    assert (row.failures, row.is_enabled) == (ATTEMPTS, True)
    assert row.last_error == "The receiver answered with 503."


def test_a_channel_that_always_fails_is_disabled(ground: Ground) -> None:
    row = channel(user("ann", ground))
    NotificationChannel.objects.update(failures=DISABLED_AFTER - 1)
    overdue(ground)
    write(create_notices)
    attempt(claimed()[0], Sent(False, error="no answer"))
    row.refresh_from_db()
    assert row.is_enabled is False


def test_a_browser_that_has_unsubscribed_is_disabled_at_once(ground: Ground) -> None:
    row = channel(user("ann", ground))
    overdue(ground)
    write(create_notices)
    delivery = attempt(claimed()[0], Sent(False, 410, is_gone=True))
    row.refresh_from_db()
    assert (delivery.state, row.is_enabled) == (DeliveryState.FAILED, False)


def test_a_delivered_message_forgives_earlier_failures(ground: Ground) -> None:
    row = channel(user("ann", ground))
    NotificationChannel.objects.update(failures=5, last_error="no answer")
    write(lambda tx: send_test(tx, row.pk, user_id=row.user_id))
    delivery = attempt(claimed()[0], Sent(True, 204))
    row.refresh_from_db()
    assert (delivery.state, row.failures, row.last_error) == (DeliveryState.SENT, 0, "")


def test_a_process_that_died_during_an_attempt_leaves_the_message_to_others(
    ground: Ground,
) -> None:
    row = channel(user("ann", ground))
    write(lambda tx: send_test(tx, row.pk, user_id=row.user_id))
    (first,) = claimed()
    Delivery.objects.update(due_at=now_ms() - 1)  # the time of the attempt is over
    assert [one.id for one in claimed()] == [first.id]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://hooks.example/", "https://"),
        ("https://127.0.0.1/", "private network"),
        ("https://[::1]/", "private network"),
        ("https://169.254.169.254/latest", "private network"),
        ("https://user:secret@hooks.example/", "user name or password"),
        ("ftp://hooks.example/", "http"),
        ("", "http"),
    ],
)
def test_a_webhook_needs_a_public_address(ground: Ground, url: str, words: str) -> None:
    with pytest.raises(BadField) as caught:
        channel(user("ann", ground), target={"url": url})
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


@override_settings(CRUSH_NOTIFY_PRIVATE_HOSTS=("127.0.0.1:8080",))
def test_a_listed_private_address_is_allowed(ground: Ground) -> None:
    row = channel(user("ann", ground), target={"url": "http://127.0.0.1:8080/hook"})
    assert row.name == "127.0.0.1:8080"
    with pytest.raises(BadField):
        channel(user("bob", ground), target={"url": "http://127.0.0.1:8081/hook"})


def test_addresses_are_stored_encrypted(ground: Ground) -> None:
    row = channel(user("ann", ground), target={"url": URL + "/very-secret"})
    assert "very-secret" not in row.sealed_target + row.name
    target = open_target(row.sealed_target)
    assert target["url"] == URL + "/very-secret"
    assert target["secret"].startswith("whsec_")


def test_a_user_sees_and_removes_only_own_channels(ground: Ground) -> None:
    ann, bob = user("ann", ground), user("bob", ground)
    row = channel(ann)
    actor = Actor(IdentityKind.USER, "bob", bob.pk)
    with pytest.raises(Exception, match="no channel"):
        write(lambda tx: delete_channel(tx, row.pk, user_id=bob.pk, actor=actor))
    assert own_channel(row.pk, ann.pk) == row
    write(lambda tx: delete_channel(tx, row.pk, user_id=ann.pk, actor=actor))
    assert list(NotificationChannel.objects.all()) == []
    assert AuditEntry.objects.filter(act="delete channel").count() == 1


# -- links


def linked(ground: Ground) -> tuple[str, User, PermissionRequest]:
    ann = user("ann", ground)
    channel(ann)
    request = overdue(ground)
    write(create_notices)
    message = link_of(NotificationMessage(Delivery.objects.get().pk, "x"), "https://c.example/")
    assert message.link.startswith("https://c.example/answer/?key=")
    return message.link.partition("key=")[2].replace("%3A", ":"), ann, request


def test_a_link_leads_to_its_request_and_works_once(ground: Ground) -> None:
    key, ann, request = linked(ground)
    found = open_link(key)
    assert found.request is not None
    assert (found.request.pk, found.user) == (request.pk, ann)
    open_link(key)  # looking at it uses nothing up
    use_link(found.delivery_id)
    for use in (lambda: open_link(key), lambda: use_link(found.delivery_id)):
        with pytest.raises(AnswerLinkInvalid):
            use()


def test_a_link_ends_with_the_right_to_answer(ground: Ground) -> None:
    key, ann, _ = linked(ground)
    workspace = Workspace.objects.get(pk=ground.workspace_id)
    write(lambda tx: set_role(tx, user=ann, workspace=workspace, role=MemberRole.PROMPTER))
    with pytest.raises(AnswerLinkInvalid):
        open_link(key)


@pytest.mark.parametrize("change", ["expired", "inactive", "disabled", "forged", "empty"])
def test_a_link_that_is_not_valid(ground: Ground, change: str) -> None:
    key, _, _ = linked(ground)
    match change:
        case "expired":
            Delivery.objects.update(link_expires_at=now_ms() - 1)
        case "inactive":
            User.objects.update(is_active=False)
        case "disabled":
            NotificationChannel.objects.update(is_enabled=False)
        case "forged":
            key = key[:-1] + ("A" if key[-1] != "A" else "B")
        case "empty":
            key = ""
    with pytest.raises(AnswerLinkInvalid):
        open_link(key)
