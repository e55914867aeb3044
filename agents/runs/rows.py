"""The columns of a run: as they are stored, as actions and workers read them, and in events.

Each list of columns is a dataclass: a new field of a run needs one line in those that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from operator import attrgetter
from typing import Any, Generic, TypeVar

import orjson
from django.db.models.functions import Left

from agents.models import Run, RunState
from workspaces.log.attached_data import load_attached
from workspaces.log.parts import (
    Finish,
    FinishReason,
    Parts,
    Text,
    parts_from_wire,
)
from workspaces.log.transaction import Transaction

PROMPT_SHOWN_CHARS = 2_000

Row = TypeVar("Row")


def _column(sql: str = "", *, decode: Callable[[Any], Any] | None = None) -> Mapping[str, Any]:
    return {"sql": sql, "decode": decode}


class _Columns(Generic[Row]):
    """A dataclass whose fields are columns: what a SELECT lists, and a row of it decoded.

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


def _call_ids(stored: str) -> frozenset[str]:
    return frozenset(orjson.loads(stored))


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
    open_calls: frozenset[str] = field(metadata=_column(decode=_call_ids))
    message_id: str
    started_at: int | None
    # Its session's cancel mark covers it, or it was withdrawn.
    is_cancelled: bool = field(
        metadata=_column("s.cancel_mark >= r.accept_number OR r.is_withdrawn", decode=bool)
    )
    # The run whose call waits for it.
    parent: int | None = field(metadata=_column("r.parent_id"))

    def user_parts(self, tx: Transaction) -> Parts:
        """The user message that this run's prompt is stored as."""
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
    # Its session is nobody's child: a prompt may give it a title.
    is_top_level: bool = field(metadata=_column("s.parent_session_id = ''", decode=bool))
    title: str = field(metadata=_column("s.title"))  # as it is now
    # What its session's conversation takes of the window.
    context_tokens: int = field(metadata=_column("s.context_tokens"))
    # The run that waits for it.
    parent: int | None = field(metadata=_column("r.parent_id"))
    errand: str  # JSON: what a child run works with besides its prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """An accepted run, as it is stored. Columns that it lacks have a default in the database."""

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


_RUN = _Columns(RunRow, fields(RunRow))
_CLAIMED = _Columns(Claimed, fields(Claimed))
_NEW = tuple(f.name for f in fields(NewRun))
_NEW_VALUES = attrgetter(*_NEW)
_INSERT = (
    f"INSERT INTO agents_run ({', '.join(_NEW)})"
    f" VALUES ({', '.join(['%s'] * len(_NEW))}) RETURNING id"
)


def insert_run(tx: Transaction, run: NewRun) -> int:
    """Returns the run's key."""
    ((key,),) = tx.fetch(_INSERT, _NEW_VALUES(run))
    return int(key)


def read_claimed(tx: Transaction, keys: Sequence[int]) -> list[Claimed]:
    rows = tx.fetch(
        f"SELECT {_CLAIMED.sql} FROM agents_run r"
        " JOIN workspaces_workspace w ON w.id = r.workspace_id"
        " JOIN workspaces_session s ON s.id = r.session_id"
        f" WHERE r.id IN ({', '.join(['%s'] * len(keys))})",
        keys,
    )
    return [_CLAIMED.decode(values) for values in rows]


def read_runs(tx: Transaction, where: str, params: Sequence[Any]) -> list[RunRow]:
    """Runs in the order they were accepted. ``where`` is a constant of the caller."""
    rows = tx.fetch(
        f"SELECT {_RUN.sql} FROM agents_run r JOIN workspaces_session s ON s.id = r.session_id"
        f" WHERE {where} ORDER BY r.accept_number",
        params,
    )
    return [_RUN.decode(values) for values in rows]


def unfinished_runs(tx: Transaction, session_id: str) -> list[RunRow]:
    return read_runs(tx, "r.session_id = %s AND r.state <> 'finished'", [session_id])


def run_wire(run: RunRow, **more: Any) -> dict[str, Any]:
    """What events tell of a run."""
    facts = run_facts(
        key=run.key,
        session_id=run.session_id,
        accept_number=run.accept_number,
        run_id=run.run_id,
        message_id=run.message_id,
        kind=run.kind,
    )
    return {**facts, **more}


def run_facts(
    *,
    key: int,
    session_id: str,
    accept_number: int,
    run_id: str | None,
    message_id: str = "",
    kind: str = "prompt",
    **more: Any,
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "key": key,
        "session_id": session_id,
        "accept_number": accept_number,
    }
    if message_id:
        facts["message_id"] = message_id
    if run_id is not None:
        facts["run_id"] = run_id
    if kind != "prompt":
        facts["kind"] = kind
    return {**facts, **more}


def read_unfinished_runs(workspace_id: str) -> dict[str, Any]:
    """The runs of a workspace that have not ended, for its snapshot, oldest first.

    As ``run.accepted`` shows them, with their ``state``. Synchronous: called through ``read``.
    """
    runs = (
        Run.objects.filter(workspace_id=workspace_id)
        .exclude(state=RunState.FINISHED)
        .annotate(shown=Left("prompt", PROMPT_SHOWN_CHARS))
        .defer("prompt", "attachments")
        .order_by("id")
    )
    return {
        "runs": [
            run_facts(
                key=run.pk,
                session_id=run.session_id,
                accept_number=run.accept_number,
                run_id=run.run_id,
                message_id=run.message_id,
                kind=run.kind,
                prompt=run.shown,
                state=run.state,
            )
            for run in runs
        ]
    }
