"""A person changes the queue: order, text, removal, and a prompt that steers after all."""

from __future__ import annotations

import pytest

from agents.runs.accept import Prompt, accept_prompt
from agents.runs.prompting.queue import cancel_run, edit_queued, reorder_queue, steer_queued
from agents.runs.queries import queued_prompts
from agents.runs.steps import ReplyStart
from agents.turn.options import Budget, RunOptions
from people.models import AuditEntry
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    result,
    run_of,
    say,
    step,
    write,
)
from workspaces.access import Actor, IdentityKind
from workspaces.log.errors import Forbidden, QueueChanged, RunNotQueued, RunUnknown
from workspaces.models import Message

ANN = Actor(IdentityKind.USER, "ann", 7)
BOB = Actor(IdentityKind.USER, "bob", 8)


def queue(ground: Ground, text: str, *, options: RunOptions | None = None) -> int:
    prompt = Prompt(ground.session_id, text, run_id=text, options=options or RunOptions())
    return write(lambda tx: accept_prompt(tx, ground.workspace_id, prompt, actor=ANN))


def texts(ground: Ground) -> list[str]:
    return queued_prompts(ground.workspace_id, ground.session_id)


def reorder(ground: Ground, *keys: int) -> list[int]:
    runs = write(
        lambda tx: reorder_queue(tx, ground.workspace_id, ground.session_id, keys, actor=BOB)
    )
    return [run.key for run in runs]


def test_the_named_prompts_come_first_and_the_others_keep_their_order(ground: Ground) -> None:
    held = ground.start()
    a, b, c, d = (queue(ground, text) for text in "abcd")

    assert reorder(ground, d, b) == [d, b, a, c]

    assert texts(ground) == ["d", "b", "a", "c"]
    (event,) = ground.events("queue.reordered")
    assert {run["key"]: run["accept_number"] for run in event["runs"]} == {d: 2, a: 4, c: 5}
    end(held)
    assert [run.key for run in claim()] == [d]


def test_an_order_that_changes_nothing_is_no_event(ground: Ground) -> None:
    ground.start()
    a, b = queue(ground, "a"), queue(ground, "b")
    assert reorder(ground, a, b) == [a, b]
    assert ground.events("queue.reordered") == []


def test_an_order_with_a_prompt_that_has_begun_is_refused_as_a_whole(ground: Ground) -> None:
    held = ground.start()
    a, b = queue(ground, "a"), queue(ground, "b")
    end(held)
    claim()
    with pytest.raises(QueueChanged):
        reorder(ground, b, a)
    with pytest.raises(QueueChanged):
        reorder(ground, b, b)
    assert texts(ground) == ["b"]


def test_only_its_author_changes_the_text_of_a_prompt(ground: Ground) -> None:
    held = ground.start()
    key = queue(ground, "before")

    with pytest.raises(Forbidden):
        write(lambda tx: edit_queued(tx, ground.workspace_id, key, "theirs", actor=BOB))
    write(lambda tx: edit_queued(tx, ground.workspace_id, key, "after, longer", actor=ANN))

    row = run_of(key)
    assert (row.prompt, row.size) == ("after, longer", len("after, longer"))
    (event,) = ground.events("run.updated")
    assert (event["run"]["key"], event["run"]["prompt"]) == (key, "after, longer")
    end(held)
    begin(held_by(key, *claim()))
    message = Message.objects.filter(run_key=key, role="user").get()
    assert "after, longer" in message.parts
    # The same request again is still the same run.
    assert queue(ground, "before") == key


def test_a_prompt_with_a_permission_mode_cannot_be_changed(ground: Ground) -> None:
    """Whoever changed it would use a right that its sender alone was asked for."""
    ground.start()
    key = queue(ground, "a", options=RunOptions(permission_mode="yolo"))
    with pytest.raises(Forbidden):
        write(lambda tx: edit_queued(tx, ground.workspace_id, key, "b", actor=ANN))


def test_a_prompt_that_has_begun_cannot_be_changed_or_steer(ground: Ground) -> None:
    held = ground.start()
    key = queue(ground, "a")
    end(held)
    claim()
    for act in (
        lambda tx: edit_queued(tx, ground.workspace_id, key, "b", actor=ANN),
        lambda tx: steer_queued(tx, ground.workspace_id, key, actor=ANN),
    ):
        with pytest.raises(RunNotQueued):
            write(act)
    for act in (
        lambda tx: edit_queued(tx, "another", key, "b", actor=ANN),
        lambda tx: cancel_run(tx, "another", key, actor=ANN),
    ):
        with pytest.raises(RunUnknown):
            write(act)


def test_a_promoted_prompt_joins_the_next_step_and_others_stay(ground: Ground) -> None:
    first = write(
        lambda tx: accept_prompt(
            tx, ground.workspace_id, Prompt(ground.session_id, "go"), actor=ANN
        )
    )
    held = begin(held_by(first, *claim()))
    queue(ground, "a")
    b = queue(ground, "b")

    write(lambda tx: steer_queued(tx, ground.workspace_id, b, actor=BOB))

    assert texts(ground) == ["b", "a"]
    say(held, calls=["c"])
    step(held, results=[result("c")], start=ReplyStart("model", "provider", fold=True))
    assert (run_of(b).outcome, run_of(b).folded_into_id) == ("folded", held.key)
    assert texts(ground) == ["a"]


def test_a_prompt_with_options_cannot_steer(ground: Ground) -> None:
    ground.start()
    key = queue(ground, "a", options=RunOptions(budget=Budget(steps=1)))
    with pytest.raises(RunNotQueued):
        write(lambda tx: steer_queued(tx, ground.workspace_id, key, actor=ANN))


def test_a_removed_prompt_leaves_no_message_and_names_who_removed_it(ground: Ground) -> None:
    ground.start()
    a, b = queue(ground, "a"), queue(ground, "b")

    assert write(lambda tx: cancel_run(tx, ground.workspace_id, a, actor=BOB)) is None

    assert run_of(a).outcome == "cancelled"
    assert run_of(a).cancelled_by["name"] == "bob"
    assert texts(ground) == ["b"]
    assert not Message.objects.filter(run_key=a).exists()
    assert run_of(b).state == "accepted"


def test_one_run_is_cancelled_alone(ground: Ground) -> None:
    held = ground.start()
    queue(ground, "a")

    assert write(lambda tx: cancel_run(tx, ground.workspace_id, held.key, actor=BOB)) == held.key
    assert run_of(held.key).is_withdrawn
    assert texts(ground) == ["a"]


def test_a_run_that_has_ended_is_cancelled_without_effect(ground: Ground) -> None:
    held = ground.start()
    end(held)

    assert write(lambda tx: cancel_run(tx, ground.workspace_id, held.key, actor=BOB)) is None

    assert run_of(held.key).cancelled_by is None
    assert AuditEntry.objects.get(act="cancel").outcome == "nothing to cancel"
    assert len(ground.events("run.finished")) == 1
