"""The columns of a run: as they are stored, and as actions and workers read them.

Each list of columns is a dataclass: a new field of a run needs one line in those that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from operator import attrgetter
from typing import Any, Generic, TypeVar

import orjson
from django.db import connection

from agents.models import RunKind
from agents.states import ACTIVE, CutRule, RunState, Strategy, in_sql
from agents.turn.options import NO_OPTIONS, RunOptions, Spent, options_from
from workspaces.log.attached_data import load_attached
from workspaces.log.parts import Finish, FinishReason, Parts, Text, parts_from_wire
from workspaces.log.rows import placeholders
from workspaces.log.transaction import Transaction

# Conditions for a run ``r``, its session ``s`` and its workspace ``w``.
UNFINISHED = f"r.state <> '{RunState.FINISHED}'"
QUEUED = f"r.session_id = %s AND r.state = '{RunState.ACCEPTED}' AND r.was_queued"
# The session's cancel mark covers the run, or its client has retired.
IS_CANCELLED = "s.cancel_mark >= r.accept_number OR r.is_withdrawn"
# Another prompt's run may take it too. A prompt with options has a run of its own.
MAY_BE_FOLDED = (
    f"r.state = '{RunState.ACCEPTED}' AND r.kind = '{RunKind.PROMPT}' AND r.options IS NULL"
    f" AND (r.run_id IS NULL OR r.strategy = '{Strategy.STEER}')"
)
HAS_ACTIVE_RUNS = (
    "EXISTS (SELECT 1 FROM agents_run r WHERE r.workspace_id = w.id"
    f" AND r.state IN {in_sql(ACTIVE)})"
)
HAS_UNFINISHED_CHILDREN = (
    f"EXISTS (SELECT 1 FROM agents_run r WHERE r.parent_id = %s AND {UNFINISHED})"
)
# Takes the run's key and fence. The run may have ended, but no other worker has claimed it.
FENCE_IS_NEWEST = "EXISTS (SELECT 1 FROM agents_run WHERE id = %s AND fence = %s)"

Row = TypeVar("Row")


def _column(sql: str = "", *, decode: Callable[[Any], Any] | None = None) -> Mapping[str, Any]:
    return {"sql": sql, "decode": decode}


class _Columns(Generic[Row]):
    """The columns of a dataclass: the list for a SELECT, and the decoder of its rows.

    A field is the column of its own name in ``agents_run r``, or what its metadata says.
    """

    def __init__(self, row: Callable[..., Row], columns: Sequence[Field[Any]]) -> None:
        self.sql = ", ".join(f.metadata.get("sql") or f"r.{f.name}" for f in columns)
        self._row = row
        self._decoders = tuple(
            (place, f.metadata["decode"])
            for place, f in enumerate(columns)
            if f.metadata.get("decode")
        )

    def decode(self, values: Sequence[Any]) -> Row:
        decoded = list(values)
        for place, decode in self._decoders:
            decoded[place] = decode(decoded[place])
        return self._row(*decoded)


def author_json(author: Mapping[str, Any] | None) -> str | None:
    """Returns who sent or cancelled a run as it is stored."""
    return None if author is None else orjson.dumps(author).decode()


def _author(stored: str | None) -> Mapping[str, Any] | None:
    return None if stored is None else orjson.loads(stored)


def _open_calls(stored: str) -> Mapping[str, str]:
    calls = orjson.loads(stored)
    return calls if isinstance(calls, dict) else dict.fromkeys(calls, CutRule.REPORT.value)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the actions need it, with its session ``s``."""

    key: int = field(metadata=_column("r.id"))
    workspace_id: str
    session_id: str
    run_id: str | None
    accept_number: int
    kind: str
    state: str
    prompt: str
    attachments: str
    was_queued: bool = field(metadata=_column(decode=bool))
    fence: int
    open_calls: Mapping[str, str] = field(metadata=_column(decode=_open_calls))
    lost_workers: int | None
    message_id: str
    accepted_at: int
    started_at: int | None
    is_cancelled: bool = field(metadata=_column(IS_CANCELLED, decode=bool))
    # The run whose call waits for it.
    parent: int | None = field(metadata=_column("r.parent_id"))
    author: Mapping[str, Any] | None = field(metadata=_column(decode=_author))
    cancelled_by: Mapping[str, Any] | None = field(metadata=_column(decode=_author))
    strategy: str | None
    options: RunOptions = field(metadata=_column(decode=options_from))
    replaces: int | None
    rewind_id: str | None
    retry_of: int | None
    outcome: str
    session_title: str = field(metadata=_column("s.title"))
    session_messages: int = field(metadata=_column("s.message_count"))

    def user_parts(self, tx: Transaction) -> Parts:
        """Returns the parts of the user message that stores the run's prompt."""
        attached = orjson.loads(load_attached(tx.cursor, self.attachments))
        return (Text(self.prompt), *parts_from_wire(attached), Finish(FinishReason.STOP))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that this worker holds, with what it needs of its session ``s`` and workspace ``w``."""

    key: int = field(metadata=_column("r.id"))
    fence: int
    workspace_id: str
    session_id: str
    run_id: str | None
    accept_number: int
    kind: str
    prompt: str
    path: str = field(metadata=_column("w.path"))
    data_dir: str = field(metadata=_column("w.data_dir"))
    # The session is not a child session, so a prompt may give it a title.
    is_top_level: bool = field(metadata=_column("s.parent_session_id = ''", decode=bool))
    title: str = field(metadata=_column("s.title"))
    # The size of the session's conversation, in tokens.
    context_tokens: int = field(metadata=_column("s.context_tokens"))
    # The run that waits for it.
    parent: int | None = field(metadata=_column("r.parent_id"))
    working_dir: str  # empty for the workspace's folder
    role: str
    hook_decisions: Mapping[str, Mapping[str, Any]] = field(metadata=_column(decode=orjson.loads))
    author: Mapping[str, Any] | None = field(metadata=_column(decode=_author))
    options: RunOptions = field(metadata=_column(decode=options_from), default=NO_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to insert. Columns without a field here have a default in the database."""

    workspace_id: str
    session_id: str
    run_id: str | None
    accept_number: int
    kind: str
    prompt: str
    attachments: str
    size: int
    body_digest: str
    was_queued: bool
    client_id: str
    accepted_at: int
    state: str = RunState.ACCEPTED.value
    outcome: str = ""
    worker: str = ""
    fence: int = 0
    lease_expires_at: int = 0
    open_calls: str = "[]"
    message_id: str = ""
    error: str = ""
    parent_id: int | None = None
    parent_call_id: str = ""
    working_dir: str = ""
    role: str = ""
    author: str | None = None  # JSON
    strategy: str | None = None
    options: str | None = None  # JSON
    is_from_person: bool = False
    is_scheduled: bool = False
    replaces: int | None = None
    retry_of: int | None = None
    trace_context: str | None = None


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run that was accepted with the same ``run_id``."""

    key: int = field(metadata=_column("r.id"))
    body_digest: str


@dataclass(frozen=True, slots=True)
class QueueSize:
    prompts: int = field(metadata=_column("COUNT(*)"))
    size: int = field(metadata=_column("COALESCE(SUM(r.size), 0)", decode=int))  # bytes


@dataclass(frozen=True, slots=True)
class DelegatedRun:
    """The run that a call has started, for that call. It has ended if its state is "finished"."""

    state: str
    outcome: str
    message_id: str
    error: str
    answer: str


_RUN = _Columns(RunRow, fields(RunRow))
CLAIMED = _Columns(Claimed, fields(Claimed))
KNOWN = _Columns(KnownRun, fields(KnownRun))
# The run of a ``run_id`` in the workspace ``w``; without one its columns are null.
JOIN_KNOWN = "LEFT JOIN agents_run r ON r.workspace_id = w.id AND r.run_id = %s"
_QUEUE = _Columns(QueueSize, fields(QueueSize))
_DELEGATED = _Columns(DelegatedRun, fields(DelegatedRun))
_NEW = tuple(f.name for f in fields(NewRun))
_NEW_VALUES = attrgetter(*_NEW)
_INSERT = (
    f"INSERT INTO agents_run ({', '.join(_NEW)}) VALUES ({placeholders(len(_NEW))}) RETURNING id"
)


def insert_run(tx: Transaction, run: NewRun) -> int:
    """Inserts the run and returns its key."""
    ((key,),) = tx.fetch(_INSERT, _NEW_VALUES(run))
    return int(key)


def read_runs(
    tx: Transaction,
    where: str,
    params: Sequence[Any],
    *,
    locked: bool = False,
    limit: int | None = None,
) -> list[RunRow]:
    """Returns runs in the order of their acceptance. ``where`` is a constant of the caller.

    With ``locked`` no worker can claim them before the end of the transaction.
    """
    most = "" if limit is None else f" LIMIT {limit:d}"
    lock = " FOR UPDATE OF r" if locked and connection.features.has_select_for_update else ""
    rows = tx.fetch(
        f"SELECT {_RUN.sql} FROM agents_run r JOIN workspaces_session s ON s.id = r.session_id"
        f" WHERE {where} ORDER BY r.accept_number{most}{lock}",
        params,
    )
    return [_RUN.decode(values) for values in rows]


def unfinished_runs(
    tx: Transaction, session_id: str, *, locked: bool = False, limit: int | None = None
) -> list[RunRow]:
    where = f"r.session_id = %s AND {UNFINISHED}"
    return read_runs(tx, where, [session_id], locked=locked, limit=limit)


def queue_size(tx: Transaction, session_id: str) -> QueueSize:
    (values,) = tx.fetch(
        f"SELECT {_QUEUE.sql} FROM agents_run r"
        f" WHERE r.session_id = %s AND r.state = '{RunState.ACCEPTED}'",
        [session_id],
    )
    return _QUEUE.decode(values)


def read_delegated(tx: Transaction, parent: int, call_id: str) -> DelegatedRun | None:
    rows = tx.fetch(
        f"SELECT {_DELEGATED.sql} FROM agents_run r"
        " WHERE r.parent_id = %s AND r.parent_call_id = %s",
        [parent, call_id],
    )
    return _DELEGATED.decode(rows[0]) if rows else None


def delegations_ended(tx: Transaction, parent: int) -> dict[str, bool]:
    """Returns for each call that waits for a run whether that run has ended."""
    rows = tx.fetch(
        f"SELECT parent_call_id, state = '{RunState.FINISHED}' FROM agents_run"
        " WHERE parent_id = %s",
        [parent],
    )
    return {call_id: bool(has_ended) for call_id, has_ended in rows}


def runs_of_client(tx: Transaction, client_id: str) -> list[tuple[int, str]]:
    """Returns key and workspace of the client's unfinished runs that have a ``run_id``."""
    rows = tx.fetch(
        "SELECT r.id, r.workspace_id FROM agents_run r WHERE r.client_id = %s"
        f" AND r.run_id IS NOT NULL AND {UNFINISHED} ORDER BY r.workspace_id, r.id",
        [client_id],
    )
    return [(key, workspace_id) for key, workspace_id in rows]


def is_of(author: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two authors are one person; runs without an author are the server's own."""
    if author is None or other is None:
        return author is other
    return bool(author["user_id"] == other["user_id"])


def count_step(tx: Transaction, key: int) -> None:
    """Counts a request to a model, which has ended."""
    tx.execute("UPDATE agents_run SET steps = COALESCE(steps, 0) + 1 WHERE id = %s", [key])


# The run that no other one waits for, with all runs that wait below it.
_SPENT = (
    "WITH RECURSIVE up(id, parent_id) AS ("
    "SELECT id, parent_id FROM agents_run WHERE id = %s UNION ALL"
    " SELECT r.id, r.parent_id FROM agents_run r JOIN up ON r.id = up.parent_id),"
    " tree(id) AS (SELECT id FROM up WHERE parent_id IS NULL UNION ALL"
    " SELECT r.id FROM agents_run r JOIN tree ON r.parent_id = tree.id)"
    " SELECT (SELECT COALESCE(SUM(cost), 0) FROM agents_usageentry"
    " WHERE run_key IN (SELECT id FROM tree)),"
    " (SELECT COALESCE(SUM(prompt_tokens + completion_tokens), 0) FROM agents_usageentry"
    " WHERE run_key IN (SELECT id FROM tree)),"
    " COALESCE(SUM(r.steps), 0), MIN(r.started_at)"
    " FROM agents_run r JOIN tree ON r.id = tree.id"
)


def spent_by(tx: Transaction, key: int) -> Spent:
    """Returns what the run has used with the runs that wait for it and those it waits for."""
    ((cost, tokens, steps, since),) = tx.fetch(_SPENT, [key])
    return Spent(
        round(float(cost), 6), int(tokens), int(steps), (tx.now - (since or tx.now)) // 1000
    )


def note_canceller(
    tx: Transaction, where: str, params: Sequence[Any], *, author: Mapping[str, Any] | None
) -> None:
    """Stores who cancels these unfinished runs; the first one counts. ``where`` is a constant."""
    if author is not None:
        tx.execute(
            f"UPDATE agents_run AS r SET cancelled_by = %s WHERE {where} AND {UNFINISHED}"
            " AND r.cancelled_by IS NULL",
            [author_json(author), *params],
        )


def store_open_calls(tx: Transaction, key: int, calls: Mapping[str, str]) -> None:
    """Stores the calls whose tools run, with their rules; what they print is stored from now on."""
    stored = orjson.dumps(dict(calls) if set(calls.values()) - {CutRule.REPORT} else list(calls))
    sql = "UPDATE agents_run SET open_calls = %s, call_outputs = NULL WHERE id = %s"
    tx.execute(sql, [stored.decode(), key])


def store_call_outputs(tx: Transaction, runs: Iterable[tuple[int, int, Mapping[str, str]]]) -> None:
    """Stores what the running tools of runs have printed: key, fence, and output by call.

    Changes nothing for a run that another worker holds.
    """
    tx.execute_many(
        "UPDATE agents_run SET call_outputs = %s"
        f" WHERE id = %s AND fence = %s AND state = '{RunState.RUNNING}'",
        [(orjson.dumps(dict(outputs)).decode(), key, fence) for key, fence, outputs in runs],
    )


def read_call_outputs(tx: Transaction, key: int) -> dict[str, str]:
    ((stored,),) = tx.fetch("SELECT call_outputs FROM agents_run WHERE id = %s", [key])
    return dict(orjson.loads(stored or "{}"))


def delete_runs(tx: Transaction, session_id: str) -> None:
    """Deletes the session's runs and their sub-agents. Their child runs lose their parent."""
    of_session = "(SELECT id FROM agents_run WHERE session_id = %s)"
    tx.execute(
        f"UPDATE agents_run SET parent_id = NULL WHERE parent_id IN {of_session}", [session_id]
    )
    tx.execute(f"DELETE FROM agents_runstep WHERE run_key IN {of_session}", [session_id])
    tx.execute(f"DELETE FROM agents_subagent WHERE run_id IN {of_session}", [session_id])
    tx.execute("DELETE FROM agents_run WHERE session_id = %s", [session_id])


def store_answer(tx: Transaction, key: int, answer: str) -> None:
    tx.execute("UPDATE agents_run SET answer = %s WHERE id = %s", [answer, key])


def store_hook_decisions(tx: Transaction, key: int, decisions: Mapping[str, Any]) -> None:
    tx.execute(
        "UPDATE agents_run SET hook_decisions = %s WHERE id = %s",
        [orjson.dumps(dict(decisions)).decode(), key],
    )
