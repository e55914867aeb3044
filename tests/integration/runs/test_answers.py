"""What an answer carries: its author, a reason and a scope."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from agents.models import Run
from agents.runs.answer import Answer, Resolution, dismiss_open_batch, resolve, resolve_batch
from agents.runs.calls.permission_check import (
    CallVerdict,
)
from agents.runs.children.delegations import begin_delegation
from agents.tools.contract import ChildTask, UserQuestions
from people.identities import ensure_owner
from permissions.actions.grants import remove_expired_grants, revoke_grant
from permissions.models import Grant, GrantScope, QuestionBatch
from tests.integration.runs.answering import (
    ANN,
    BOB,
    HOUR,
    QUESTION,
    answer,
    check,
    request_of,
    verdict,
    waiting,
)
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_ground,
    say,
    write,
)
from workspaces.access import Actor, IdentityKind
from workspaces.log.commits import run_alone
from workspaces.log.errors import BadField
from workspaces.log.timestamps import now_ms
from workspaces.models import Message

# -- authors


def test_an_answer_has_its_author_in_the_row_and_in_the_event(ground: Ground) -> None:
    held = waiting(ground, "c")
    check(held)
    assert answer(held, Answer.DENY, actor=ANN) == Resolution(
        is_first=True,
        answer={
            "state": "denied",
            "author": {"kind": "user", "name": "ann", "user_id": "101", "via": "socket"},
        },
    )
    (resolved,) = ground.events("permission.resolved")
    assert resolved["author"] == request_of(held).author
    assert (resolved["state"], resolved["denied"], "reason" in resolved) == ("denied", True, False)


def test_a_later_answer_learns_who_was_first(ground: Ground) -> None:
    held = waiting(ground, "c")
    check(held)
    first = answer(held, Answer.ALLOW, actor=ANN)
    late = answer(held, Answer.DENY, actor=BOB, reason="no")
    assert late == replace(first, is_first=False)
    assert late.wire()["author"]["name"] == "ann"
    assert request_of(held).reason == ""


def test_the_reply_has_the_scope_of_the_answer_that_counts(ground: Ground) -> None:
    held = waiting(ground, "c")
    check(held)
    end = now_ms() + 3_600_000
    first = answer(held, Answer.ALLOW, actor=ANN, scope=GrantScope.WORKSPACE, until=end)
    late = answer(held, Answer.DENY, actor=BOB)
    for reply in (first.wire(), late.wire()):
        assert (reply["scope"], reply["until"]) == ("workspace", end // 1000)


def test_questions_have_their_author_too(ground: Ground) -> None:
    held = waiting(ground, "c", "d")
    asked = UserQuestions(({"id": "q", "type": "yes_no", "question": "?"},))
    for call_id in ("c", "d"):
        write(lambda tx, c=call_id: begin_delegation(tx, held, asked, message_id="m", call_id=c))
    first, second = QuestionBatch.objects.order_by("tool_call_id")
    responses = [{"request_id": "q", "fill_in_text": "words"}]

    def give(batch: QuestionBatch, actor: Actor) -> Resolution:
        return write(
            lambda tx: resolve_batch(tx, ground.workspace_id, batch.pk, responses, actor=actor)
        )

    def dismiss(batch: QuestionBatch, actor: Actor) -> Resolution:
        return write(lambda tx: dismiss_open_batch(tx, ground.workspace_id, batch.pk, actor=actor))

    assert give(first, ANN).is_first
    assert dismiss(first, BOB).wire()["author"]["name"] == "ann"
    assert dismiss(second, BOB).is_first
    late = give(second, ANN)
    given = late.answer
    assert (late.is_first, given["state"], given["author"]["name"]) == (False, "dismissed", "bob")
    names = [event["author"]["name"] for event in ground.events("question.resolved")]
    assert names == ["ann", "bob"]


def test_of_two_answers_at_once_one_wins_and_both_learn_which(ground: Ground) -> None:
    rounds = 40
    held = waiting(ground, *map(str, range(rounds)))
    for number in range(rounds):
        check(held, str(number))
    ids = [request_of(held, str(number)).pk for number in range(rounds)]
    results: dict[str, list[Resolution]] = {"ann": [], "bob": []}
    together = threading.Barrier(2)

    def work(actor: Actor, given: Answer) -> None:
        try:
            for request_id in ids:
                together.wait(30)
                results[actor.name].append(
                    run_alone(
                        held.workspace_id,
                        lambda tx, pk=request_id: resolve(
                            tx,
                            held.workspace_id,
                            request_id=pk,
                            tool_call_id="",
                            answer=given,
                            actor=actor,
                        ),
                    )[0]
                )
        finally:
            connection.close()

    threads = [
        threading.Thread(target=work, args=(ANN, Answer.ALLOW)),
        threading.Thread(target=work, args=(BOB, Answer.DENY)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ground.events("permission.resolved")) == rounds
    for ann, bob in zip(results["ann"], results["bob"], strict=True):
        assert ann.is_first is not bob.is_first
        assert ann.answer == bob.answer
        assert (ann.answer["author"]["name"], ann.answer["state"]) == (
            ("ann", "allowed") if ann.is_first else ("bob", "denied")
        )


# -- reasons


@pytest.mark.parametrize("given", [Answer.ALLOW, Answer.DENY])
def test_a_reason_is_there_when_the_call_is_checked_again(ground: Ground, given: Answer) -> None:
    held = waiting(ground, "c")
    check(held)
    answer(held, given, reason="use rg instead")
    assert check(held).reason == "use rg instead"
    (resolved,) = ground.events("permission.resolved")
    assert resolved["reason"] == "use rg instead"


# -- scopes and grants


def test_a_grant_for_a_run_is_for_that_run_and_the_runs_below_it(ground: Ground) -> None:
    session_id = ground.new_session()
    held = waiting(ground, "c", "d", "e", session_id=session_id)
    check(held)
    answer(held, scope=GrantScope.RUN)
    assert verdict(held, "d") is CallVerdict.ALLOWED
    message = Message.objects.filter(run_key=held.key, role="assistant").latest("position")
    task = ChildTask("agent", "child", "do it")
    write(lambda tx: begin_delegation(tx, held, task, message_id=message.pk, call_id="e"))
    child = begin(held_by(Run.objects.get(parent_id=held.key).pk, *claim()))
    say(child, calls=["x"])
    assert verdict(child, "x") is CallVerdict.ALLOWED
    end(child)
    end(held)
    later = waiting(ground, "c", session_id=session_id)
    assert verdict(later) is CallVerdict.NEEDS_ANSWER


def test_a_grant_for_the_workspace_is_for_all_its_sessions_and_no_other_workspace(
    ground: Ground,
) -> None:
    held = waiting(ground, "c")
    check(held)
    answer(held, scope=GrantScope.WORKSPACE)
    assert verdict(waiting(ground, "c")) is CallVerdict.ALLOWED
    other = open_ground("/other")
    assert verdict(waiting(other, "c")) is CallVerdict.NEEDS_ANSWER


@pytest.mark.parametrize("scope", [GrantScope.RUN, GrantScope.SESSION, GrantScope.WORKSPACE])
def test_a_grant_counts_for_no_other_persons_runs(ground: Ground, scope: GrantScope) -> None:
    session_id = ground.new_session()
    held = waiting(ground, "c", "d", actor=BOB, session_id=session_id)
    check(held)
    answer(held, actor=ANN, scope=scope)  # Ann answers for Bob's run
    assert Grant.objects.get().author == ANN.author()
    assert verdict(held, "d") is CallVerdict.NEEDS_ANSWER
    end(held)
    own = waiting(ground, "c", actor=ANN, session_id=session_id)
    expected = CallVerdict.NEEDS_ANSWER if scope is GrantScope.RUN else CallVerdict.ALLOWED
    assert verdict(own) is expected
    end(own)
    of_no_one = waiting(ground, "c", session_id=session_id)
    assert verdict(of_no_one) is CallVerdict.NEEDS_ANSWER


def test_runs_and_grants_without_a_person_are_the_owners(ground: Ground) -> None:
    owner_id = write(lambda _: ensure_owner()).pk
    owner = Actor(IdentityKind.USER, "owner", owner_id)
    held = waiting(ground, "c")
    check(held)
    answer(held, actor=owner, scope=GrantScope.WORKSPACE)
    assert verdict(waiting(ground, "c")) is CallVerdict.ALLOWED
    assert verdict(waiting(ground, "c", actor=owner)) is CallVerdict.ALLOWED
    assert verdict(waiting(ground, "c", actor=ANN)) is CallVerdict.NEEDS_ANSWER


def test_a_grant_ends_at_its_time(ground: Ground) -> None:
    held = waiting(ground, "c", "d", "e")
    check(held)
    answer(held, scope=GrantScope.SESSION, until=now_ms() + HOUR)
    assert verdict(held, "d") is CallVerdict.ALLOWED
    (created,) = ground.events("grant.created")
    assert created["grant"]["expires_at"] == Grant.objects.get().expires_at // 1000
    Grant.objects.update(expires_at=now_ms() - 1)
    assert verdict(held, "e") is CallVerdict.NEEDS_ANSWER
    assert write(remove_expired_grants) == 1
    assert not Grant.objects.exists()


def test_the_longer_of_two_grants_for_the_same_counts(ground: Ground) -> None:
    held = waiting(ground, "c", "d", "e")
    check(held, "c")
    check(held, "d")
    check(held, "e")
    late = now_ms() + 2 * HOUR
    answer(held, call_id="c", scope=GrantScope.SESSION, until=late)
    answer(held, call_id="d", scope=GrantScope.SESSION, until=now_ms() + HOUR)
    assert Grant.objects.get().expires_at == late
    answer(held, call_id="e", scope=GrantScope.SESSION)
    assert Grant.objects.get().expires_at is None


def test_a_revoked_grant_counts_no_longer_and_clients_learn_of_it(ground: Ground) -> None:
    held = waiting(ground, "c", "d")
    check(held)
    answer(held, actor=None, scope=GrantScope.SESSION)
    grant = Grant.objects.get()
    assert write(lambda tx: revoke_grant(tx, grant.pk, actor=ANN))
    assert not write(lambda tx: revoke_grant(tx, grant.pk, actor=ANN))
    (created,), (revoked,) = ground.events("grant.created"), ground.events("grant.revoked")
    assert created == revoked
    assert revoked["grant"]["id"] == str(grant.pk)
    assert verdict(held, "d") is CallVerdict.NEEDS_ANSWER


def test_no_grant_covers_a_protected_file(ground: Ground) -> None:
    held = waiting(ground, "c", "d")
    dangerous = replace(QUESTION, always_asks=True)
    check(held, "c", dangerous)
    answer(held, scope=GrantScope.WORKSPACE)
    assert not Grant.objects.exists()
    assert request_of(held).scope == "once"
    assert verdict(held, "d", dangerous) is CallVerdict.NEEDS_ANSWER


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (Answer.DENY, {"scope": GrantScope.SESSION}),
        (Answer.DENY, {"arguments": {"command": "pwd"}}),
        (Answer.ALLOW, {"folder": "/project"}),
        (Answer.ALLOW, {"until": 10**15}),
        (Answer.ALLOW, {"scope": GrantScope.RUN, "until": 1}),
        (Answer.ALLOW, {"scope": GrantScope.SESSION, "arguments": {"command": "pwd"}}),
    ],
)
def test_what_does_not_belong_together_is_refused_and_leaves_the_request_open(
    ground: Ground, given: Answer, options: dict[str, Any]
) -> None:
    held = waiting(ground, "c")
    check(held)
    with pytest.raises(BadField):
        answer(held, given, **options)
    assert request_of(held).state == "pending"
