"""A prompt that rolls back: the turn ends, its messages and files are undone, then it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.models import RunKind
from agents.runs.accept import Accepted, ParentCall, Prompt, accept_prompt, accept_run
from agents.runs.cancel import cancel_session
from agents.runs.finish import close_session_work, rescue_run, settle_cancelled
from agents.runs.history.rollback import finish_rollbacks
from agents.runs.lease import Lease, require_lease
from agents.states import Strategy
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_ground,
    run_of,
    say,
    step,
    write,
)
from workspaces.access import Actor, IdentityKind
from workspaces.actions.files import record_change
from workspaces.actions.messages import start_command_message
from workspaces.actions.sessions import create_session
from workspaces.log.errors import SessionBusy
from workspaces.log.parts import ShellCommand
from workspaces.models import Message, Rewind

ANN = Actor(IdentityKind.USER, "ann", 7)


@pytest.fixture
def ground(_database: None, tmp_path: Path) -> Ground:
    return open_ground(str(tmp_path))


def roll_back(ground: Ground, text: str = "instead", **more: Any) -> Accepted:
    prompt = Prompt(ground.session_id, text, strategy=Strategy.ROLLBACK, **more)
    return write(lambda tx: accept_run(tx, ground.workspace_id, prompt, actor=ANN))


def change(ground: Ground, path: Path, before: str | None, after: str, session: str = "") -> None:
    path.write_text(after)
    write(
        lambda tx: record_change(
            tx,
            ground.workspace_id,
            session or ground.session_id,
            path=str(path),
            before=before,
            after=after,
        )
    )


def end_cancelled(held: Lease) -> None:
    """What the worker of a cancelled run does."""

    def job(tx: Any) -> None:
        settle_cancelled(tx, require_lease(tx, held))
        close_session_work(tx, held.workspace_id, held.session_id)

    write(job)


def prompts(ground: Ground) -> list[int]:
    rows = Message.objects.filter(session_id=ground.session_id).order_by("position")
    return list(dict.fromkeys(rows.values_list("run_key", flat=True)))


def finish(ground: Ground) -> None:
    from asgiref.sync import async_to_sync

    async_to_sync(finish_rollbacks)()


def test_the_turn_is_undone_before_the_prompt_runs(ground: Ground, tmp_path: Path) -> None:
    earlier = ground.start("before")
    say(earlier, "kept")
    end(earlier)
    held = ground.start("wrong")
    say(held, calls=["c"])
    change(ground, tmp_path / "new.txt", None, "wrong")
    kept = ground.accept("waits", run_id="waits")

    accepted = roll_back(ground)
    assert accepted.stopped == held.key
    assert claim() == []
    end_cancelled(held)

    assert claim() == []  # files are restored first
    rewind = Rewind.objects.get()
    assert run_of(accepted.key).rewind_id == rewind.pk
    assert (rewind.state, rewind.author["name"]) == ("applying", "ann")
    finish(ground)
    finish(ground)

    assert not (tmp_path / "new.txt").exists()
    assert prompts(ground) == [earlier.key]
    assert run_of(held.key).outcome == "cancelled"
    assert [run.key for run in claim()] == [accepted.key]
    assert run_of(kept).state == "accepted"
    (event,) = ground.events("session.rewound")
    assert event["rewind"]["id"] == rewind.pk


def test_a_parked_turn_is_undone_with_the_prompt_itself(ground: Ground) -> None:
    held = ground.start("wrong")
    say(held, calls=["c"])
    step(held, parks=True)

    accepted = roll_back(ground)

    assert accepted.rolls_back
    assert prompts(ground) == []
    assert Rewind.objects.get().state == "done"
    assert [run.key for run in claim()] == [accepted.key]


def test_a_file_that_has_changed_since_is_left_alone(ground: Ground, tmp_path: Path) -> None:
    held = ground.start("wrong")
    say(held, calls=["c"])
    change(ground, tmp_path / "a.txt", None, "wrong")
    (tmp_path / "a.txt").write_text("mine")
    accepted = roll_back(ground)
    end_cancelled(held)
    finish(ground)

    assert (tmp_path / "a.txt").read_text() == "mine"
    assert [run.key for run in claim()] == [accepted.key]


def test_a_turn_whose_worker_died_is_undone_too(ground: Ground) -> None:
    held = ground.start("wrong")
    say(held, calls=["c"])
    accepted = roll_back(ground)

    assert write(lambda tx: rescue_run(tx, held.key, worker="worker")) == "cancelled"
    finish(ground)

    assert prompts(ground) == []
    assert [run.key for run in claim()] == [accepted.key]


def test_a_child_run_ends_before_the_turn_is_undone(ground: Ground, tmp_path: Path) -> None:
    held = ground.start("wrong")
    message_id = say(held, calls=["c"])

    def delegate(tx: Any) -> tuple[int, str]:
        session = create_session(
            tx,
            ground.workspace_id,
            title="child",
            session_id=f"{message_id}$$c",
            parent_session_id=ground.session_id,
        )
        call = ParentCall(held.key, "c", "", "", None)
        prompt = Prompt(session["id"], "look")
        key = accept_prompt(tx, ground.workspace_id, prompt, kind=RunKind.AGENT, delegated_by=call)
        return key, session["id"]

    key, session_id = write(delegate)
    step(held, parks=True)
    child = begin(held_by(key, *claim()))
    accepted = roll_back(ground)
    other = ground.accept("waits", run_id="waits")
    assert run_of(held.key).outcome == "cancelled"
    assert claim() == []
    assert Rewind.objects.count() == 0

    change(ground, tmp_path / "late.txt", None, "late", session_id)
    end_cancelled(child)
    finish(ground)

    assert not (tmp_path / "late.txt").exists()
    assert [run.key for run in claim()] == [accepted.key]
    assert run_of(other).state == "accepted"


def test_without_a_running_turn_nothing_is_undone(ground: Ground) -> None:
    held = ground.start("before")
    say(held, "kept")
    end(held)

    accepted = roll_back(ground)

    assert prompts(ground) == [held.key]
    assert [run.key for run in claim()] == [accepted.key]


def test_a_rollback_that_is_cancelled_first_undoes_nothing(ground: Ground) -> None:
    held = ground.start("kept")
    say(held, "kept", calls=["c"])
    accepted = roll_back(ground)
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    end_cancelled(held)

    assert prompts(ground)[0] == held.key
    assert Rewind.objects.count() == 0
    assert run_of(accepted.key).outcome == "cancelled"
    later = ground.accept("later")
    assert [run.key for run in claim()] == [later]


def test_the_same_rollback_again_undoes_nothing_else(ground: Ground) -> None:
    held = ground.start("wrong")
    accepted = roll_back(ground, run_id="r")
    end_cancelled(held)
    fresh = begin(held_by(accepted.key, *claim()))
    say(fresh, "right")

    again = roll_back(ground, run_id="r")

    assert (again.key, again.is_new) == (accepted.key, False)
    assert prompts(ground) == [accepted.key]


def test_a_command_of_a_user_that_runs_is_not_undone(ground: Ground) -> None:
    ground.start("wrong")
    command = ShellCommand("make", "", 0)
    write(
        lambda tx: start_command_message(
            tx, ground.workspace_id, ground.session_id, command=command
        )
    )
    with pytest.raises(SessionBusy):
        roll_back(ground)
