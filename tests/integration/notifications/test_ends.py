"""Who is notified when a run ends, and when nobody is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User

from agents.models import Run, RunKind
from agents.runs.cancel import cancel_session
from agents.runs.finish import close_session_work, settle_failed
from agents.runs.lease import Lease
from agents.runs.rows import read_runs
from agents.runs.steps import ReplyStart
from agents.states import RunOutcome
from notifications.channels import change_channel
from notifications.ends import ends_since, has_unnoticed_ends
from notifications.messages import push_body
from notifications.models import Delivery, DeliveryState, Ends, Notice
from notifications.notifier import create_notices
from people.actions.members import set_role
from people.identities import ensure_owner, identity_of
from tests.integration.notifications.test_notifier import CLIENT, channel, claimed, user
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_ground,
    result,
    say,
    step,
    write,
)
from workspaces.access import Actor, IdentityKind, MemberRole
from workspaces.actions.claims import attach_stream, detach_stream, set_current_session
from workspaces.actions.sessions import rename_session
from workspaces.log.errors import BadField
from workspaces.log.timestamps import now_ms
from workspaces.models import Session, Workspace


@pytest.fixture
def ground(database: str) -> Ground:
    return open_ground()


def acting(row: User, **more: Any) -> Actor:
    return Actor(IdentityKind.USER, row.username, row.pk, via="rest", **more)


def begun(ground: Ground, row: User | None, **more: Any) -> Lease:
    """Returns a run of this user's prompt in a session of its own, which a worker has begun."""
    session_id = ground.new_session("Fix the build")
    actor = None if row is None else acting(row, **more)
    return ground.start(session_id=session_id, actor=actor)


def ended(
    ground: Ground, row: User | None, outcome: RunOutcome = RunOutcome.COMPLETED, **more: Any
) -> Lease:
    held = begun(ground, row, **more)
    say(held, "SECRET-REPLY")
    end(held, outcome)
    return held


def notified() -> set[str]:
    """Returns the users for whom a message was stored, and leaves no end without a decision."""
    write(create_notices)
    assert not has_unnoticed_ends()
    rows = Delivery.objects.filter(notice__subject="run")
    return set(rows.values_list("channel__user__username", flat=True))


def test_only_the_author_is_notified_and_once(ground: Ground) -> None:
    ann, bob = user("ann", ground), user("bob", ground)
    own = channel(ann)
    channel(bob)
    held = ended(ground, ann)
    assert notified() == {"ann"}
    assert write(create_notices) == 0
    notice = Notice.objects.get()
    assert (notice.subject, notice.subject_id) == ("run", str(held.key))
    assert Delivery.objects.get().channel_id == own.pk
    (message,) = [one.message for one in claimed()]
    assert message.title == "Done: Fix the build"
    assert message.page == f"/w/{ground.workspace_id}/s/{held.session_id}"
    assert "SECRET" not in message.text + push_body(message).decode() + str(message.wire)


@pytest.mark.parametrize(
    ("outcome", "title"),
    [
        (RunOutcome.COMPLETED, "Done: Fix the build"),
        (RunOutcome.FAILED, "Failed: Fix the build"),
        (RunOutcome.OVER_BUDGET, "Over budget: Fix the build"),
    ],
)
def test_the_title_says_how_it_ended(ground: Ground, outcome: RunOutcome, title: str) -> None:
    ann = user("ann", ground)
    channel(ann)
    ended(ground, ann, outcome)
    assert notified() == {"ann"}
    assert [one.message.title for one in claimed()] == [title]


def test_neither_an_error_nor_the_prompt_is_in_a_message(ground: Ground) -> None:
    ann = user("ann", ground)
    channel(ann)
    key = ground.accept("use SECRET-PROMPT", session_id=ground.new_session("s"), actor=acting(ann))
    held_by(key, *claim())

    def fail(tx: Any) -> None:
        (run,) = read_runs(tx, "r.id = %s", [key])
        settle_failed(tx, run, "401 for the key SECRET-KEY")
        close_session_work(tx, run.workspace_id, run.session_id)

    write(fail)
    assert notified() == {"ann"}
    (message,) = [one.message for one in claimed()]
    assert message.title == "Failed: s"
    assert "SECRET" not in message.text + push_body(message).decode() + str(message.wire)


def test_the_local_owner_counts(ground: Ground) -> None:
    owner = ensure_owner()
    channel(owner)
    held = ground.start(actor=Actor(IdentityKind.OWNER, owner.username, owner.pk, via="v1"))
    end(held)
    assert notified() == {owner.username}


@pytest.mark.parametrize("kind", [RunKind.SUMMARY, RunKind.AGENT, RunKind.FETCH, RunKind.FLEET])
def test_what_no_person_has_prompted_is_no_news(ground: Ground, kind: RunKind) -> None:
    ann = user("ann", ground)
    channel(ann, notify_ended=Ends.ALL)
    key = ground.accept(kind=kind, actor=acting(ann))
    end(begin(held_by(key, *claim())))
    assert notified() == set()


def test_a_prompt_of_a_tool_and_one_without_an_author_are_no_news(ground: Ground) -> None:
    ann = user("ann", ground)
    channel(ann, notify_ended=Ends.ALL)
    ended(ground, ann, is_tool=True)
    ended(ground, None)
    assert notified() == set()


def test_others_are_notified_if_they_chose_it_and_may_read(ground: Ground) -> None:
    ann = user("ann", ground)
    for name, role in [("bob", MemberRole.VIEWER), ("eve", None)]:
        channel(user(name, ground, role), notify_ended=Ends.ALL)
    channel(user("dan", ground), notify_ended=Ends.NONE)
    ended(ground, ann)
    assert notified() == {"bob"}


def test_who_may_not_read_any_more_gets_nothing(ground: Ground) -> None:
    ann = user("ann", ground)
    channel(ann)
    held = begun(ground, ann)
    workspace = Workspace.objects.get(pk=ground.workspace_id)
    write(lambda tx: set_role(tx, user=ann, workspace=workspace, role=None))
    end(held)
    assert notified() == set()


def test_a_channel_that_is_for_what_waits_gets_no_ends(ground: Ground) -> None:
    ann = user("ann", ground)
    row = channel(ann, notify_ended=Ends.NONE)
    ended(ground, ann)
    assert notified() == set()
    change = {"notify_waiting": False, "notify_ended": Ends.OWN}
    write(lambda tx: change_channel(tx, row.pk, user_id=ann.pk, actor=acting(ann), **change))
    assert notified() == set()  # what had ended before stays unsaid
    ended(ground, ann)
    assert notified() == {"ann"}
    off = {"notify_ended": Ends.NONE}
    with pytest.raises(BadField):
        write(lambda tx: change_channel(tx, row.pk, user_id=ann.pk, actor=acting(ann), **off))


def test_nobody_is_notified_who_is_looking_at_the_session(ground: Ground) -> None:
    ann, bob = user("ann", ground), user("bob", ground)
    channel(ann)
    channel(bob, notify_ended=Ends.ALL)
    held = begun(ground, ann)
    show = {"session_id": held.session_id, "user_id": ann.pk}
    write(lambda tx: attach_stream(tx, ground.workspace_id, CLIENT, holder="here"))
    write(lambda tx: set_current_session(tx, ground.workspace_id, CLIENT, **show))
    end(held)
    assert notified() == {"bob"}
    held = ended(ground, ann)  # in a session that nobody looks at
    assert notified() == {"ann", "bob"}


def test_who_has_disconnected_is_not_looking(ground: Ground) -> None:
    ann = user("ann", ground)
    channel(ann)
    held = begun(ground, ann)
    show = {"session_id": held.session_id, "user_id": ann.pk}
    here = {"holder": "here"}
    write(lambda tx: attach_stream(tx, ground.workspace_id, CLIENT, **here))
    write(lambda tx: set_current_session(tx, ground.workspace_id, CLIENT, **show))
    write(lambda tx: detach_stream(tx, ground.workspace_id, CLIENT, grace_seconds=60, **here))
    end(held)
    assert notified() == {"ann"}


def cancelled(ground: Ground, author: User, by: Actor | None) -> None:
    key = ground.accept(session_id=ground.new_session("Long work"), actor=acting(author))
    session_id = Run.objects.get(pk=key).session_id
    write(lambda tx: cancel_session(tx, ground.workspace_id, session_id, actor=by))
    assert Run.objects.get(pk=key).outcome == RunOutcome.CANCELLED


def test_a_run_that_its_author_or_the_server_cancelled_is_no_news(ground: Ground) -> None:
    ann = user("ann", ground)
    channel(ann)
    channel(user("bob", ground), notify_ended=Ends.ALL)
    cancelled(ground, ann, acting(ann))
    cancelled(ground, ann, None)
    assert notified() == set()


def test_a_run_that_somebody_else_cancelled_names_who_it_was(ground: Ground) -> None:
    ann, bob = user("ann", ground), user("bob\u202e\n", ground)
    channel(ann)
    channel(bob, notify_ended=Ends.ALL)
    cancelled(ground, ann, acting(bob))
    assert notified() == {"ann"}
    (message,) = [one.message for one in claimed()]
    assert message.title == "Cancelled: Long work"
    assert "bob has cancelled the run." in message.text


def test_a_prompt_that_joins_another_run_is_news_once(ground: Ground) -> None:
    """Also where the run that it joins was prompted by a tool in the person's name."""
    ann = user("ann", ground)
    channel(ann)
    session_id = ground.new_session("joined")
    first = ground.accept("one", session_id=session_id, actor=acting(ann, is_tool=True))
    second = ground.accept("two", session_id=session_id, actor=acting(ann))
    held = begin(held_by(first, *claim()))
    say(held, "before the tool", calls=["c"])
    step(held, results=[result("c")])
    step(held, start=ReplyStart("model", "provider", fold=True))  # the step in which it joins
    end(held)
    assert Run.objects.get(pk=second).outcome == RunOutcome.FOLDED
    assert notified() == {"ann"}
    assert [one.message.end.key for one in claimed() if one.message.end] == [first]


def test_a_message_about_a_deleted_session_is_not_sent(ground: Ground) -> None:
    ann = user("ann", ground)
    channel(ann)
    held = ended(ground, ann)
    assert notified() == {"ann"}
    Session.objects.filter(pk=held.session_id).update(is_deleting=True)
    assert claimed() == []
    assert Delivery.objects.get().state == DeliveryState.OBSOLETE


def test_a_hostile_title_stays_behind_what_the_server_says(ground: Ground) -> None:
    ann = user("ann", ground)
    channel(ann)
    held = begun(ground, ann)
    title = "x\r\nBcc: all@example.com\u202e<img src=x onerror=alert(1)>" + "y" * 400
    write(lambda tx: rename_session(tx, ground.workspace_id, held.session_id, title=title))
    end(held, RunOutcome.FAILED)
    notified()
    (message,) = [one.message for one in claimed()]
    assert message.title.startswith("Failed: x Bcc:")
    assert message.title.isprintable()
    assert len(message.title) <= 210
    assert len(push_body(message)) < 3500


def test_pages_in_the_background_get_the_same_ends(ground: Ground) -> None:
    ann, bob = user("ann", ground), user("bob", ground)
    before = now_ms()
    held = ended(ground, ann)
    ended(ground, ann, is_tool=True)
    assert listed(ann, before) == []  # no worker has decided about it yet
    assert notified() == set()  # without a channel
    assert listed(ann, before) == ["Done: Fix the build"]
    assert listed(bob, before) == []
    assert listed(bob, before, Ends.ALL) == ["Done: Fix the build"]
    Run.objects.filter(pk=held.key).update(end_noticed_at=before - 60_000)
    assert listed(ann, before) == []


def listed(row: User, after: int, ends: Ends = Ends.OWN) -> list[str]:
    found = ends_since(identity_of(row, IdentityKind.USER), ends, after=after)
    assert all(orjson.loads(push_body(message))["url"] for _, message in found)
    return [message.title for _, message in found]
