"""What a cancel, a cleared queue and a client that leaves end, and what they leave alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from agents.models import Run, RunKind
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.cancel import cancel as cancel_async
from agents.runs.cancel import (
    cancel_session,
    clear_queue,
    clear_queued,
    delete_session,
    mark_deleted,
)
from agents.runs.finish import SETTLED_AT_ONCE, settle_next
from agents.runs.lease import Lease
from agents.runs.teardown import cancel_and_wait, retire_everywhere
from agents.states import RunOutcome
from agents.turn.notes import CANCELLED_NOTE, CANCELLED_RESULT
from tests.integration.log.writing import in_thread
from tests.integration.runs.ground import (
    Ground,
    begin,
    cancelled_of,
    claim,
    end,
    held_by,
    results_of,
    run_of,
    say,
    step,
    write,
)
from workspaces.log.errors import SessionUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import ClientClaim, Message, SearchText, Session


def cancel(ground: Ground, session_id: str = "") -> int | None:
    return write(
        lambda tx: cancel_session(tx, ground.workspace_id, session_id or ground.session_id)
    )


def clear(ground: Ground) -> int:
    return write(lambda tx: clear_queued(tx, ground.workspace_id, ground.session_id))


def parked(ground: Ground, session_id: str) -> Lease:
    held = ground.start(session_id=session_id)
    say(held, calls=["c"])
    step(held, parks=True)
    return held


def test_a_cancel_touches_no_other_session(ground: Ground) -> None:
    other = ground.new_session()
    running = ground.start(session_id=other)
    waiting = parked(ground, ground.new_session())
    ground.accept()

    assert cancel(ground) is None

    assert cancelled_of("worker") == []
    assert run_of(running.key).state == "running"
    assert run_of(waiting.key).state == "parked"
    assert Session.objects.get(pk=other).is_busy


def test_a_cancel_behind_a_parked_run_ends_both_in_order(ground: Ground) -> None:
    waiting = parked(ground, ground.session_id)
    behind = ground.accept("behind", run_id="r")

    assert cancel(ground) is None

    ended = [event["run"]["key"] for event in ground.events("run.finished")]
    assert ended == [waiting.key, behind]
    assert results_of(waiting) == {"c": (CANCELLED_RESULT, True)}
    reply = Message.objects.filter(run_key=waiting.key, role="assistant").get()
    assert CANCELLED_NOTE in reply.parts
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_a_session_of_another_workspace_is_not_cancelled_from_here(ground: Ground) -> None:
    held = ground.start()
    with pytest.raises(SessionUnknown):
        write(lambda tx: cancel_session(tx, "another workspace", ground.session_id))
    assert cancelled_of("worker") == []
    assert run_of(held.key).state == "running"


@pytest.mark.parametrize("state", ["running", "parked", "ready"])
def test_clearing_the_queue_leaves_a_run_that_once_waited_and_has_begun(
    ground: Ground, state: str
) -> None:
    first = ground.start("first")
    second = ground.accept("second", run_id="r")
    end(first)
    held = begin(held_by(second, *claim()))
    if state == "parked":
        say(held, calls=["c"])
        step(held, parks=True)
    elif state == "ready":
        step(held, releases=True)
    third = ground.accept("third")

    assert clear(ground) == 1

    assert run_of(second).state == state
    assert run_of(third).outcome == "cancelled"
    assert Session.objects.get(pk=ground.session_id).is_busy


def test_clearing_the_queue_leaves_a_prompt_that_waits_behind_nothing(ground: Ground) -> None:
    first, second = ground.accept("first"), ground.accept("second")
    assert clear(ground) == 1
    assert (run_of(first).state, run_of(second).state) == ("accepted", "finished")


def test_a_session_whose_last_prompts_are_cleared_is_no_longer_busy(ground: Ground) -> None:
    """What they waited behind has ended, and no worker has claimed them yet."""
    first = ground.start("first")
    ground.accept("second")
    end(first)
    assert Session.objects.get(pk=ground.session_id).is_busy

    assert clear(ground) == 1

    assert not Session.objects.get(pk=ground.session_id).is_busy
    assert "is_busy" not in ground.events("session.updated")[-1]["session"]


def test_clearing_the_queue_leaves_a_cancelled_run_to_its_worker(ground: Ground) -> None:
    held = ground.start()
    covered = ground.accept("covered by the cancel")
    assert cancel(ground) == 2
    later = ground.accept("later")
    assert clear(ground) == 2
    assert run_of(held.key).state == "running"
    assert run_of(covered).outcome == run_of(later).outcome == "cancelled"


def test_clearing_an_empty_queue_sends_no_event(ground: Ground) -> None:
    ground.start()
    before = len(ground.events("session.updated"))
    assert clear(ground) == 0
    assert len(ground.events("session.updated")) == before


def test_of_a_client_that_leaves_each_waiting_run_ends_once(ground: Ground) -> None:
    """Also those that a cancel of their session takes along with the first."""
    keys = [ground.accept(f"{n}", run_id=f"{n}", client_id="c") for n in range(3)]
    Session.objects.filter(pk=ground.session_id).update(cancel_mark=3)

    assert write(lambda tx: retire_everywhere(tx, "c")) == []

    ended = [event["run"]["key"] for event in ground.events("run.finished")]
    assert ended == keys
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_a_client_that_leaves_ends_its_runs_in_every_session_and_workspace(
    ground: Ground,
) -> None:
    ClientClaim.objects.create(workspace_id=ground.workspace_id, client_id="d", expires_at=10**15)
    mine = [
        ground.accept(run_id="1", client_id="c"),
        ground.accept(run_id="2", client_id="c", session_id=ground.new_session()),
    ]
    others = ground.accept(run_id="3", client_id="d", session_id=ground.new_session())

    write(lambda tx: retire_everywhere(tx, "c"))

    assert [run_of(key).outcome for key in mine] == ["cancelled", "cancelled"]
    assert run_of(others).state == "accepted"
    held = begin(held_by(others, *claim()))
    assert end(held).is_cancelled is False


def test_a_client_that_leaves_ends_nothing_twice(ground: Ground) -> None:
    held = ground.start(run_id="r", client_id="c")
    end(held, RunOutcome.COMPLETED)
    assert write(lambda tx: retire_everywhere(tx, "c")) == []
    assert run_of(held.key).outcome == "completed"
    assert not run_of(held.key).is_withdrawn
    assert len(ground.events("run.finished")) == 1
    assert Run.objects.count() == 1


# -- long queues

MANY = 2 * SETTLED_AT_ONCE + 5  # three transactions


def accept_many(ground: Ground) -> list[int]:
    def job(tx: Transaction) -> list[int]:
        return [
            accept_prompt(
                tx,
                ground.workspace_id,
                Prompt(ground.session_id, f"prompt {number}", run_id=f"r{number}"),
                kind=RunKind.SUMMARY if number == 7 else RunKind.PROMPT,
            )
            for number in range(MANY)
        ]

    return write(job)


def ended(ground: Ground) -> list[int]:
    return [event["run"]["key"] for event in ground.events("run.finished")]


def test_a_cancel_of_a_long_queue_ends_each_run_once_and_in_order(ground: Ground) -> None:
    keys = accept_many(ground)

    assert cancel_and_wait(ground.workspace_id, ground.session_id) == MANY

    assert ended(ground) == keys
    assert set(Run.objects.values_list("outcome", flat=True)) == {"cancelled"}
    assert not Session.objects.get(pk=ground.session_id).is_busy


@pytest_asyncio.fixture
async def _writer(ground: Ground) -> AsyncIterator[None]:
    writer.start(loop=asyncio.get_running_loop())
    yield
    await asyncio.to_thread(writer.stop)


@pytest.mark.parametrize("act", [cancel_async, clear_queue, delete_session])
@pytest.mark.usefixtures("_writer")
async def test_the_answer_comes_when_the_whole_queue_has_ended(
    ground: Ground, act: Callable[..., Awaitable[None]]
) -> None:
    keys = await in_thread(accept_many, ground)
    await act(ground.workspace_id, ground.session_id)
    first = 1 if act is clear_queue else 0  # it waits behind nothing
    assert await in_thread(ended, ground) == keys[first:]


def test_the_prompts_of_a_cancelled_queue_are_kept_with_a_note_each(ground: Ground) -> None:
    keys = accept_many(ground)
    keys.pop(7)  # the summary
    cancel_and_wait(ground.workspace_id, ground.session_id)

    messages = list(Message.objects.filter(session_id=ground.session_id).order_by("position"))
    assert [(row.run_key, row.role) for row in messages] == [
        (key, role) for key in keys for role in ("user", "assistant")
    ]
    assert "prompt 0" in messages[0].parts
    assert CANCELLED_NOTE in messages[1].parts
    assert Session.objects.get(pk=ground.session_id).message_count == len(messages)
    created = [event["message"]["id"] for event in ground.events("message.created")]
    assert created == [row.pk for row in messages]
    last = ground.events("run.finished")[-1]["run"]
    assert (last["message_id"], run_of(keys[-1]).message_id) == (messages[-1].pk, messages[-1].pk)
    assert SearchText.objects.filter(session_id=ground.session_id).count() == len(keys)


def test_one_transaction_ends_a_part_of_a_long_queue(ground: Ground) -> None:
    keys = accept_many(ground)
    cancel(ground)
    assert ended(ground) == keys[:SETTLED_AT_ONCE]
    assert Session.objects.get(pk=ground.session_id).is_busy

    later = ground.accept("later")
    while write(lambda tx: settle_next(tx, ground.workspace_id, ground.session_id)):
        pass

    assert ended(ground) == keys
    assert run_of(later).state == "accepted"
    assert Session.objects.get(pk=ground.session_id).is_busy


def test_workers_end_what_a_server_that_stopped_has_left_of_a_cancel(ground: Ground) -> None:
    keys = accept_many(ground)
    cancel(ground)

    while claimed := claim():
        begin(held_by(claimed[0].key, *claimed))

    assert ended(ground) == keys
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_clearing_a_long_queue_leaves_no_messages(ground: Ground) -> None:
    held = ground.start("first")
    keys = accept_many(ground)
    before = Message.objects.count()

    assert clear(ground) == MANY
    assert ended(ground) == keys[:SETTLED_AT_ONCE]
    later = ground.accept("later")
    cancel(ground, ground.new_session())
    end(held)
    while claimed := claim():
        begin(held_by(claimed[0].key, *claimed))

    assert ended(ground) == [*keys[:SETTLED_AT_ONCE], held.key, *keys[SETTLED_AT_ONCE:]]
    assert run_of(later).state == "running"
    assert Message.objects.count() == before + 2  # the first one's reply, and the last prompt


def test_a_deleted_session_is_removed_with_the_last_run_of_its_queue(ground: Ground) -> None:
    accept_many(ground)
    write(lambda tx: mark_deleted(tx, ground.workspace_id, ground.session_id))
    assert Session.objects.filter(pk=ground.session_id).exists()

    while write(lambda tx: settle_next(tx, ground.workspace_id, ground.session_id)):
        pass

    assert not Session.objects.filter(pk=ground.session_id).exists()
    assert len(ended(ground)) == MANY
