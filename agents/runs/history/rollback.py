"""Undoes a turn for the prompt that replaces it: its messages, and the files that it changed.

The prompt waits until the turn and its child runs have ended, because only then it is certain what
they have written. The transaction of that end stores a rewind, which is completed like any other.
"""

from __future__ import annotations

from django.db import models

from agents.models import Run
from agents.runs.history.rewind import finish_rewind, store_rewind
from agents.runs.rows import RunRow, read_runs
from agents.runs.transitions import store_rollback
from agents.states import RunState, Strategy
from workspaces.actions.rewinds import position_before
from workspaces.actions.sessions import tree_of
from workspaces.log.errors import SessionBusy
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.models import UNFINISHED_REWINDS, Message, Rewind

DEEPEST = 16  # levels of child runs

_WAITING = (
    f"r.session_id = %s AND r.replaces = %s AND r.state = '{RunState.ACCEPTED}'"
    f" AND r.strategy = '{Strategy.ROLLBACK}' AND r.rewind_id IS NULL"
)


def require_no_command(session_id: str) -> None:
    """Raises ``SessionBusy`` while a user runs a command in the session, which cannot be undone."""
    if _open_messages(session_id).filter(run_key=None).exists():
        raise SessionBusy


def begin_rollback(tx: Transaction, ended: RunRow) -> None:
    """Stores the rewind of a turn that has ended, if a prompt waits to replace it.

    A child run may write files after the end of its parent: the last one that ends undoes the turn.
    """
    turn = _top(tx, ended)
    waiting = read_runs(tx, _WAITING, [turn.session_id, turn.key])
    if not waiting:
        return
    tree = tree_of(turn.session_id)
    children = Run.objects.filter(session_id__in=tree[1:]).exclude(state=RunState.FINISHED)
    is_over = turn.key == ended.key or turn.state == RunState.FINISHED
    if not is_over or children.exists():
        return
    wanted = [run for run in waiting if not run.is_cancelled]
    rewind_id = _undo(tx, turn, tree, wanted[0]) if wanted else ""
    for run in waiting:
        store_rollback(tx, run.key, rewind_id)


def _undo(tx: Transaction, turn: RunRow, tree: list[str], prompt: RunRow) -> str:
    messages = Message.objects.filter(session_id=turn.session_id, run_key=turn.key)
    first = messages.order_by("position").values_list("pk", flat=True).first()
    if first is None or _open_messages(turn.session_id).exists():
        return ""  # nothing was written, or a command of a user began meanwhile
    row = store_rewind(
        tx,
        turn.workspace_id,
        turn.session_id,
        tree,
        position=position_before(turn.session_id, first, is_included=False),
        with_files=True,
        author=prompt.author,
    )
    return row.pk


def _top(tx: Transaction, run: RunRow) -> RunRow:
    """Returns the run that no other one waits for."""
    for _ in range(DEEPEST):
        if run.parent is None:
            break
        above = read_runs(tx, "r.id = %s", [run.parent])
        if not above:
            break
        run = above[0]
    return run


def _open_messages(session_id: str) -> models.QuerySet[Message]:
    return Message.objects.filter(session_id=session_id, is_finished=False)


async def finish_rollbacks() -> None:
    """Restores the files of stored rollbacks. Repeatable, also in several processes at once."""
    for rewind_id in await read(_unfinished):
        await finish_rewind(rewind_id)


def _unfinished() -> list[str]:
    waiting = Run.objects.filter(state=RunState.ACCEPTED, strategy=Strategy.ROLLBACK)
    ids = list(waiting.exclude(rewind_id=None).values_list("rewind_id", flat=True))
    if not ids:
        return []
    rewinds = Rewind.objects.filter(pk__in=ids, state__in=UNFINISHED_REWINDS)
    return list(rewinds.values_list("pk", flat=True))
