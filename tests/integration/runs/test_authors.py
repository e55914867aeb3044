"""Who sent a prompt and who cancelled it: in rows, events, messages and snapshots."""

from __future__ import annotations

from typing import Any

from agents.models import RunKind
from agents.runs.accept import ParentCall, Prompt, accept_prompt
from agents.runs.cancel import cancel_session, clear_queued
from agents.runs.queries import read_unfinished_runs
from agents.runs.rows import read_runs
from agents.runs.steps import ReplyStart
from agents.runs.transitions import release_from_dead
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
from workspaces.actions.sessions import create_session
from workspaces.models import Message
from workspaces.queries.messages import list_messages

ANN = Actor(IdentityKind.TOKEN, "ann", 7, token_id="t1", client_id="c", address="10.0.0.1")
BOB = Actor(IdentityKind.USER, "bob", 8, address="10.0.0.2")
ANN_SHOWN = {"kind": "token", "name": "ann", "user_id": "7"}
ANN_BY_BROWSER = Actor(IdentityKind.USER, "ann", 7, address="10.0.0.1")
BROWSER_SHOWN = {"kind": "user", "name": "ann", "user_id": "7"}
BOB_SHOWN = {"kind": "user", "name": "bob", "user_id": "8"}


def accept(ground: Ground, actor: Actor | None, *, run_id: str | None = None) -> int:
    prompt = Prompt(ground.session_id, "go", run_id=run_id)
    return write(lambda tx: accept_prompt(tx, ground.workspace_id, prompt, actor=actor))


def runs_in(ground: Ground, kind: str) -> list[dict[str, Any]]:
    return [event["run"] for event in ground.events(kind)]


def test_every_event_of_a_run_and_its_message_name_the_author(ground: Ground) -> None:
    key = accept(ground, ANN, run_id="r")
    (unfinished,) = read_unfinished_runs(ground.workspace_id)["runs"]
    held = begin(held_by(key, *claim()))
    say(held, "hello")
    end(held)

    for kind in ("run.accepted", "run.started", "run.finished"):
        (run,) = runs_in(ground, kind)
        assert run["author"] == ANN_SHOWN, kind
        assert "cancelled_by" not in run
    assert unfinished["author"] == ANN_SHOWN
    prompt, reply = list_messages(ground.workspace_id, ground.session_id)
    assert prompt["author"] == ANN_SHOWN
    assert "author" not in reply
    (created,) = ground.events("message.created")
    assert created["message"]["author"] == ANN_SHOWN
    stored = str(run_of(key).author) + str(Message.objects.get(role="user").author)
    assert "t1" not in stored
    assert "10.0.0.1" not in stored


def test_a_folded_prompt_keeps_its_own_author(ground: Ground) -> None:
    held = begin(held_by(accept(ground, ANN), *claim()))
    key = accept(ground, ANN_BY_BROWSER)
    say(held, calls=["c"])
    step(held, results=[result("c")], start=ReplyStart("model", "provider", fold=True))

    (folded,) = runs_in(ground, "run.folded")
    assert (folded["key"], folded["author"]) == (key, BROWSER_SHOWN)
    authors = Message.objects.filter(role="user").order_by("position").values_list("author")
    assert [author for (author,) in authors] == [ANN_SHOWN, BROWSER_SHOWN]


def test_a_prompt_of_another_user_waits_for_a_turn_of_its_own(ground: Ground) -> None:
    """Its tools must not use the grants of the turn's author."""
    held = begin(held_by(accept(ground, ANN), *claim()))
    key = accept(ground, BOB)
    say(held, calls=["c"])
    step(held, results=[result("c")], start=ReplyStart("model", "provider", fold=True))

    assert runs_in(ground, "run.folded") == []
    assert run_of(key).state == "accepted"


def test_a_cancelled_run_names_who_cancelled_it_first(ground: Ground) -> None:
    key = accept(ground, ANN)
    held_by(key, *claim())

    for actor in (BOB, ANN):
        write(
            lambda tx, actor=actor: cancel_session(
                tx, ground.workspace_id, ground.session_id, actor=actor
            )
        )
    assert run_of(key).cancelled_by == BOB_SHOWN

    begin(held_by(key, *_claimed_again(key)))

    (ended,) = runs_in(ground, "run.finished")
    assert ended["outcome"] == "cancelled"
    assert ended["author"] == ANN_SHOWN
    assert ended["cancelled_by"] == BOB_SHOWN


def _claimed_again(key: int) -> list[Any]:
    write(lambda tx: release_from_dead(tx, key))
    return claim()


def test_prompts_that_are_taken_out_of_the_queue_name_who_did_it(ground: Ground) -> None:
    running = ground.start()
    queued = accept(ground, ANN, run_id="r")

    write(lambda tx: clear_queued(tx, ground.workspace_id, ground.session_id, actor=BOB))

    (ended,) = runs_in(ground, "run.finished")
    assert (ended["key"], ended["cancelled_by"]) == (queued, BOB_SHOWN)
    assert run_of(running.key).cancelled_by is None


def test_a_child_run_has_the_author_of_its_parent_and_ends_with_it(ground: Ground) -> None:
    held = begin(held_by(accept(ground, ANN), *claim()))
    say(held, calls=["c"])
    (parent,) = write(lambda tx: read_runs(tx, "r.id = %s", [held.key]))

    def delegate(tx: Any) -> int:
        session = create_session(
            tx, ground.workspace_id, title="child", parent_session_id=ground.session_id
        )
        return accept_prompt(
            tx,
            ground.workspace_id,
            Prompt(session["id"], "look"),
            kind=RunKind.AGENT,
            delegated_by=ParentCall(held.key, "c", "", "", parent.author),
        )

    child = write(delegate)
    assert run_of(child).author == ANN_SHOWN
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id, actor=BOB))
    begin(held_by(held.key, *_claimed_again(held.key)))

    (ended,) = runs_in(ground, "run.finished")
    assert ended["cancelled_by"] == BOB_SHOWN
    assert run_of(child).cancelled_by == BOB_SHOWN  # its worker ends it


def test_a_prompt_of_the_server_itself_has_no_author(ground: Ground) -> None:
    key = accept(ground, None)
    assert run_of(key).author is None
    (run,) = runs_in(ground, "run.accepted")
    assert "author" not in run
