"""Which prompts are the same request, and which are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.models import Run
from agents.runs.accept import ParentCall, Prompt, PromptAttachment, accept_prompt, accept_summary
from agents.runs.cancel import cancel_session, clear_queued, mark_deleted
from agents.runs.prompting.begin import begin_run
from agents.runs.queries import (
    busy_sessions,
    has_waiting_prompts,
    queued_prompts,
)
from agents.states import RunOutcome
from agents.turn.effects import End
from tests.integration.runs.ground import (
    Ground,
    cancelled_of,
    claim,
    end,
    held_by,
    open_ground,
    run_of,
    say,
    step,
    write,
)
from workspaces.log.errors import RunIdTaken, SessionUnknown, WorkspaceUnknown
from workspaces.models import ClientClaim, Event, Message, Session, Workspace

PICTURE = PromptAttachment("/project/a.png", "a.png", "image/png", "AAAA")


def accept(ground: Ground, prompt: Prompt) -> int:
    return write(lambda tx: accept_prompt(tx, ground.workspace_id, prompt))


def test_the_same_request_again_is_the_same_run(ground: Ground) -> None:
    prompt = Prompt(ground.session_id, "go", "r", (PICTURE,))
    key = accept(ground, prompt)
    before = Event.objects.count()

    assert accept(ground, prompt) == key

    assert Run.objects.count() == 1
    assert Event.objects.count() == before


@pytest.mark.parametrize(
    "other",
    [
        (),
        (PICTURE, PICTURE),
        (replace(PICTURE, content="AAAB"),),
        (replace(PICTURE, mime_type="image/gif"),),
        (replace(PICTURE, file_name="b.png"),),
        (replace(PICTURE, file_path="/project/b.png"),),
    ],
)
def test_a_run_id_with_other_attachments_is_refused(
    ground: Ground, other: tuple[PromptAttachment, ...]
) -> None:
    accept(ground, Prompt(ground.session_id, "go", "r", (PICTURE,)))
    with pytest.raises(RunIdTaken):
        accept(ground, Prompt(ground.session_id, "go", "r", other))
    assert Run.objects.count() == 1


def test_a_run_id_with_another_text_or_session_is_refused(ground: Ground) -> None:
    accept(ground, Prompt(ground.session_id, "go", "r"))
    for prompt in (
        Prompt(ground.session_id, "other", "r"),
        Prompt(ground.new_session(), "go", "r"),
    ):
        with pytest.raises(RunIdTaken):
            accept(ground, prompt)


def test_a_run_id_belongs_to_its_workspace(ground: Ground) -> None:
    other = open_ground("/other")
    first = accept(ground, Prompt(ground.session_id, "go", "r"))
    assert accept(other, Prompt(other.session_id, "go", "r")) != first


def test_a_prompt_without_a_run_id_is_a_new_run_each_time(ground: Ground) -> None:
    prompt = Prompt(ground.session_id, "go")
    assert accept(ground, prompt) != accept(ground, prompt)
    numbers = Run.objects.order_by("accept_number").values_list("accept_number", "was_queued")
    assert list(numbers) == [(1, False), (2, True)]


def test_a_prompt_into_a_session_that_is_being_deleted_is_refused(ground: Ground) -> None:
    """Its last run is still ending: the prompt would be erased with it."""
    held = ground.start()
    assert write(lambda tx: mark_deleted(tx, ground.workspace_id, ground.session_id)) == 1
    assert Session.objects.filter(pk=ground.session_id).exists()

    with pytest.raises(SessionUnknown):
        ground.accept("too late")

    assert Run.objects.count() == 1
    step(held, end=End(RunOutcome.CANCELLED))
    assert not Session.objects.filter(pk=ground.session_id).exists()


def test_a_prompt_into_a_session_of_another_workspace_is_refused(ground: Ground) -> None:
    other = open_ground("/other")
    with pytest.raises(SessionUnknown):
        accept(ground, Prompt(other.session_id, "go"))
    with pytest.raises(SessionUnknown):
        accept(ground, Prompt("unknown", "go"))


def test_a_prompt_into_a_closed_workspace_is_refused_but_a_child_run_is_not(
    ground: Ground,
) -> None:
    waiting = ground.start()
    Workspace.objects.filter(pk=ground.workspace_id).update(is_open=False)
    with pytest.raises(WorkspaceUnknown):
        ground.accept()
    child, call = Prompt(ground.session_id, "go"), ParentCall(waiting.key, "c", "", "", None)
    assert write(lambda tx: accept_prompt(tx, ground.workspace_id, child, delegated_by=call))


def test_an_accepted_prompt_makes_its_session_busy_and_is_told(ground: Ground) -> None:
    told = len(ground.events("session.updated"))
    key = ground.accept("hello" * 1_000, run_id="r")

    session = Session.objects.get(pk=ground.session_id)
    assert (session.is_busy, session.last_accept) == (True, 1)
    (accepted,) = ground.events("run.accepted")
    assert accepted["run"]["key"] == key
    assert accepted["run"]["run_id"] == "r"
    assert accepted["run"]["prompt"] == "hello" * 400
    assert len(ground.events("session.updated")) == told + 1
    ground.accept()
    assert len(ground.events("session.updated")) == told + 1  # it was busy before
    numbers = [event["run"]["accept_number"] for event in ground.events("run.accepted")]
    assert numbers == [1, 2]


def test_a_summary_needs_a_conversation(ground: Ground) -> None:
    assert write(lambda tx: accept_summary(tx, ground.workspace_id, ground.session_id)) is None
    held = ground.start()
    say(held, "words")
    end(held)
    assert write(lambda tx: accept_summary(tx, ground.workspace_id, ground.session_id)) is not None
    assert Run.objects.get(state="accepted").kind == "summary"


def test_queued_prompts_are_those_behind_another(ground: Ground) -> None:
    ground.accept("first")
    ground.accept("second")
    ground.accept("third", run_id="r")
    other = open_ground("/other")
    other.accept("other")
    other.accept("queued there")

    assert queued_prompts(ground.workspace_id, ground.session_id) == ["second", "third"]
    assert queued_prompts(other.workspace_id, other.session_id) == ["queued there"]
    assert queued_prompts(other.workspace_id, ground.session_id) == []
    assert queued_prompts(ground.workspace_id, ground.new_session()) == []


def test_clearing_the_queue_ends_what_waits_behind_another_and_stores_nothing(
    ground: Ground,
) -> None:
    held = ground.start("first")
    queued = [ground.accept("second"), ground.accept("third", run_id="r")]

    assert write(lambda tx: clear_queued(tx, ground.workspace_id, ground.session_id)) == 2

    assert [run_of(key).outcome for key in queued] == ["cancelled", "cancelled"]
    assert run_of(held.key).state == "running"
    assert Session.objects.get(pk=ground.session_id).is_busy
    assert Message.objects.filter(role="user").count() == 1
    assert queued_prompts(ground.workspace_id, ground.session_id) == []
    assert write(lambda tx: clear_queued(tx, ground.workspace_id, ground.session_id)) == 0
    with pytest.raises(SessionUnknown):
        write(lambda tx: clear_queued(tx, open_ground("/other").workspace_id, ground.session_id))


def test_a_cancel_of_runs_that_nobody_holds_ends_them_all(ground: Ground) -> None:
    keys = [ground.accept("first"), ground.accept("second", run_id="r")]

    assert write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id)) is None

    assert [run_of(key).outcome for key in keys] == ["cancelled", "cancelled"]
    assert not Session.objects.get(pk=ground.session_id).is_busy
    assert claim() == []
    assert not busy_sessions(ground.workspace_id)


def test_a_cancel_of_a_run_that_a_worker_holds_is_left_to_its_worker(ground: Ground) -> None:
    held = ground.start()
    behind = ground.accept("behind", run_id="r")
    assert cancelled_of("worker") == []

    assert write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id)) == 2

    assert run_of(held.key).state == "running"
    assert run_of(behind).state == "accepted"
    assert cancelled_of("worker") == [(held.key, held.fence)]
    assert cancelled_of("another") == []

    step(held, end=End(RunOutcome.CANCELLED))

    assert run_of(behind).outcome == "cancelled"
    assert not Session.objects.get(pk=ground.session_id).is_busy
    assert cancelled_of("worker") == []


def test_a_cancel_without_work_changes_nothing_but_the_mark(ground: Ground) -> None:
    assert write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id)) is None
    with pytest.raises(SessionUnknown):
        write(lambda tx: cancel_session(tx, ground.workspace_id, "unknown"))
    key = ground.accept()
    assert [run.key for run in claim()] == [key]


def test_only_prompts_without_a_run_id_wait_to_be_folded(ground: Ground) -> None:
    ground.accept("first", run_id="r")
    assert not has_waiting_prompts(ground.session_id)
    ground.accept("second")
    assert has_waiting_prompts(ground.session_id)
    write(lambda tx: clear_queued(tx, ground.workspace_id, ground.session_id))
    assert not has_waiting_prompts(ground.session_id)
    assert not has_waiting_prompts(ground.new_session())


def test_a_workspace_closes_after_its_last_run_when_nobody_is_attached(ground: Ground) -> None:
    held = ground.start()
    other = ground.accept(session_id=ground.new_session())
    ClientClaim.objects.all().delete()
    end(held)
    assert Workspace.objects.get(pk=ground.workspace_id).is_open
    (claimed,) = claim()
    assert claimed.key == other


def test_a_run_that_was_cancelled_before_it_began_ends_with_its_prompt_stored(
    ground: Ground,
) -> None:
    key = ground.accept("hello", run_id="r")
    held = held_by(key, *claim())
    assert write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id)) == 1

    assert write(lambda tx: begin_run(tx, held)) is None

    assert (run_of(key).state, run_of(key).outcome) == ("finished", "cancelled")
    assert Message.objects.filter(role="user", run_key=key).count() == 1
    assert not Session.objects.get(pk=ground.session_id).is_busy
    assert [event["run"]["run_id"] for event in ground.events("run.finished")] == ["r"]
    assert ground.events("run.started") == []


def test_a_run_that_is_taken_over_is_told_as_resumed(ground: Ground) -> None:
    held = ground.start()
    step(held, releases=True)
    again = held_by(held.key, *claim())
    row = write(lambda tx: begin_run(tx, again))
    assert row is not None
    assert row.key == held.key
    assert len(ground.events("run.started")) == len(ground.events("run.resumed")) == 1
    assert Message.objects.filter(role="user").count() == 1
