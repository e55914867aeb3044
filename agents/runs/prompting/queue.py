"""The queue of a session: its order, its prompts, and how a new prompt passes others.

Queued runs exchange their accept numbers, so that every reader of the order stays as it is, and a
cancel still covers exactly what was accepted before it. Each change is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agents.models import RunKind
from agents.runs import nudges
from agents.runs.finish import close_session_work, end_run, settle_cancelled
from agents.runs.objects.run_objects import PROMPT_SHOWN_CHARS, run_wire
from agents.runs.rows import (
    QUEUED,
    RunRow,
    is_of,
    note_canceller,
    queue_size,
    read_runs,
    unfinished_runs,
)
from agents.runs.transitions import (
    set_prompt,
    set_strategy,
    store_accept_numbers,
    withdraw_run,
)
from agents.states import IN_PROGRESS, RunOutcome, RunState, Strategy
from agents.turn.options import NO_OPTIONS
from people.actions.audit import DONE, Act, record
from workspaces.access import Actor, author_of
from workspaces.log.errors import Forbidden, QueueChanged, QueueFull, RunNotQueued, RunUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of a session's queue. Its first prompt is accepted regardless of its size."""

    prompts: int
    size: int  # bytes


def require_room(tx: Transaction, session_id: str, size: int, limits: QueueLimits) -> None:
    """Raises ``QueueFull`` if another prompt of so many bytes is too much."""
    queue = queue_size(tx, session_id)
    is_full = queue.prompts >= limits.prompts or queue.size + size > limits.size
    if queue.prompts and is_full:
        raise QueueFull(
            f"the session's queue is full: {queue.prompts} prompts with {queue.size} bytes wait, and"
            f" {limits.prompts} prompts with {limits.size} bytes are the most;"
            " wait for some to be done, or clear the queue"
        )


def locked_queue(tx: Transaction, session_id: str) -> list[RunRow]:
    """Returns the prompts that wait in a session, in order; no worker can claim them meanwhile."""
    queued = read_runs(tx, QUEUED, [session_id], locked=True)
    return [run for run in queued if not run.is_cancelled]


def make_room_in_front(
    tx: Transaction, workspace_id: str, session_id: str, last_accept: int, strategy: Strategy
) -> int:
    """Returns the accept number of a new run that passes the queue; moves the others back.

    Prompts that steer keep their order: the newest comes behind the others.
    """
    queued = locked_queue(tx, session_id)
    steering = 0
    if strategy is Strategy.STEER:
        while steering < len(queued) and queued[steering].strategy == Strategy.STEER:
            steering += 1
    numbers = [*(run.accept_number for run in queued[steering:]), last_accept + 1]
    moved = dict(zip((run.key for run in queued[steering:]), numbers[1:], strict=True))
    _move(tx, workspace_id, session_id, moved)
    return numbers[0]


def _move(tx: Transaction, workspace_id: str, session_id: str, numbers: dict[int, int]) -> None:
    """Gives each of these runs another accept number, and appends the event."""
    if not numbers:
        return
    store_accept_numbers(tx, numbers)
    runs = [{"key": key, "accept_number": number} for key, number in numbers.items()]
    tx.append(
        workspace_id,
        Kind.QUEUE_REORDERED,
        {"session_id": session_id, "runs": runs},
        session_id=session_id,
    )


def _put_in_order(
    tx: Transaction, workspace_id: str, session_id: str, queued: Sequence[RunRow], keys: list[int]
) -> None:
    """Sorts the whole queue: ``keys`` are all its runs in their new order."""
    numbers = sorted(run.accept_number for run in queued)
    before = {run.key: run.accept_number for run in queued}
    wanted = dict(zip(keys, numbers, strict=True))
    _move(tx, workspace_id, session_id, {k: n for k, n in wanted.items() if before[k] != n})


# -- what a person changes


async def change(workspace_id: str, job: Callable[[Transaction], T]) -> T:
    """Writes one of the changes below, and nudges the workers that it concerns."""
    changed = await writer.write(workspace_id, job)
    await nudges.nudge_accepted()
    return changed


async def cancel_one(
    workspace_id: str, key: int, *, actor: Actor | None = None, only_queued: bool = False
) -> None:
    """Cancels one run alone. Raises the same as ``cancel_run``."""
    held = await change(
        workspace_id,
        lambda tx: cancel_run(tx, workspace_id, key, actor=actor, only_queued=only_queued),
    )
    if held is not None:
        await nudges.nudge_withdrawn([held])


def reorder_queue(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    keys: Sequence[int],
    *,
    actor: Actor | None = None,
) -> list[RunRow]:
    """Puts these prompts first, in this order; the others follow. Returns the whole queue.

    Raises ``QueueChanged`` if one of them no longer waits.
    """
    queued = locked_queue(tx, session_id)
    if len(set(keys)) != len(keys) or not set(keys) <= {run.key for run in queued}:
        raise QueueChanged
    rest = [run.key for run in queued if run.key not in set(keys)]
    _put_in_order(tx, workspace_id, session_id, queued, [*keys, *rest])
    _record(tx, actor, workspace_id, session_id, {"order": list(keys)})
    return locked_queue(tx, session_id)


def edit_queued(
    tx: Transaction, workspace_id: str, key: int, text: str, *, actor: Actor | None = None
) -> RunRow:
    """Changes the text of a prompt that waits. Only its author may: it runs in the author's name.

    Raises ``RunUnknown``, ``RunNotQueued`` and ``Forbidden``.
    """
    run = _require_queued(tx, workspace_id, key)
    if actor is not None and not is_of(run.author, author_of(actor)):
        raise Forbidden("Only the author of a prompt may change it.")
    if run.options.permission_mode:
        raise Forbidden(
            "A prompt with a permission mode cannot be changed. Remove it, and send another one."
        )
    set_prompt(tx, run.key, text, size=len(text.encode()) - len(run.prompt.encode()))
    _record(tx, actor, workspace_id, run.session_id, {"edited": run.key})
    return _updated(tx, run.key)


def steer_queued(
    tx: Transaction, workspace_id: str, key: int, *, actor: Actor | None = None
) -> RunRow:
    """Lets a prompt that waits join the running turn at its next step, or run next without one.

    Raises ``RunUnknown`` and ``RunNotQueued``.
    """
    run = _require_queued(tx, workspace_id, key)
    is_bound = run.options != NO_OPTIONS or run.strategy == Strategy.ROLLBACK
    if run.kind != RunKind.PROMPT or is_bound:
        raise RunNotQueued("A summary, a rollback or a prompt with options joins no other turn.")
    queued = locked_queue(tx, run.session_id)
    others = [other for other in queued if other.key != key]
    steering = [other.key for other in others if other.strategy == Strategy.STEER]
    rest = [other.key for other in others if other.strategy != Strategy.STEER]
    set_strategy(tx, key, Strategy.STEER)
    _put_in_order(tx, workspace_id, run.session_id, queued, [*steering, key, *rest])
    _record(tx, actor, workspace_id, run.session_id, {"steering": run.key})
    return _updated(tx, run.key)


def cancel_run(
    tx: Transaction,
    workspace_id: str,
    key: int,
    *,
    actor: Actor | None = None,
    only_queued: bool = False,
) -> int | None:
    """Cancels one run alone; returns its key if a worker holds it and needs a nudge.

    A prompt that waits leaves no messages. Raises ``RunUnknown``, and with ``only_queued``
    ``RunNotQueued``.
    """
    if only_queued:
        _require_queued(tx, workspace_id, key)
    # A worker may claim or end the run at this moment: its state is certain only when it is locked.
    rows = read_runs(tx, "r.id = %s AND r.workspace_id = %s", [key, workspace_id], locked=True)
    if not rows:
        raise RunUnknown
    run = rows[0]
    is_done = run.state == RunState.FINISHED
    record(
        tx,
        actor,
        Act.CANCEL,
        workspace_id=workspace_id,
        session_id=run.session_id,
        target=run.run_id or str(run.key),
        outcome="nothing to cancel" if is_done else DONE,
    )
    return None if is_done else stop_run(tx, run, actor=actor)


def stop_run(tx: Transaction, run: RunRow, *, actor: Actor | None) -> int | None:
    """Cancels an unfinished, locked run; returns its key if its worker must abort it."""
    withdraw_run(tx, run.key)
    note_canceller(tx, "r.id = %s", [run.key], author=author_of(actor))
    (run,) = read_runs(tx, "r.id = %s", [run.key])
    if run.state == RunState.RUNNING:
        return run.key
    if run.state == RunState.ACCEPTED and run.was_queued:
        end_run(tx, run, outcome=RunOutcome.CANCELLED)
    else:
        settle_cancelled(tx, run)
    close_session_work(tx, run.workspace_id, run.session_id)
    return None


def current_run(tx: Transaction, session_id: str) -> RunRow | None:
    """Returns the run that the session is at, locked; ``None`` if all of its runs wait."""
    runs = unfinished_runs(tx, session_id, locked=True)
    begun = [run for run in runs if run.state in IN_PROGRESS or not run.was_queued]
    return begun[0] if begun else None


def _require_queued(tx: Transaction, workspace_id: str, key: int) -> RunRow:
    rows = read_runs(tx, "r.id = %s AND r.workspace_id = %s", [key, workspace_id], locked=True)
    if not rows:
        raise RunUnknown
    run = rows[0]
    if run.state != RunState.ACCEPTED or not run.was_queued or run.is_cancelled:
        raise RunNotQueued
    return run


def _updated(tx: Transaction, key: int) -> RunRow:
    """Appends an event with the run's new state and returns it."""
    (run,) = read_runs(tx, "r.id = %s", [key])
    wire = run_wire(run, prompt=run.prompt[:PROMPT_SHOWN_CHARS], state=run.state)
    tx.append(run.workspace_id, Kind.RUN_UPDATED, {"run": wire}, session_id=run.session_id)
    return run


def _record(
    tx: Transaction,
    actor: Actor | None,
    workspace_id: str,
    session_id: str,
    details: dict[str, object],
) -> None:
    record(
        tx,
        actor,
        Act.CHANGE_QUEUE,
        workspace_id=workspace_id,
        session_id=session_id,
        details=details,
    )
