"""Accepts a prompt or a request for a summary: one transaction stores the run and its event.

The run is durable when this returns, even if the client has left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agents.models import RunKind
from agents.runs import nudges
from agents.runs.history.rollback import finish_rollbacks, require_no_command
from agents.runs.objects.run_objects import PROMPT_SHOWN_CHARS, run_facts
from agents.runs.prompting.admission import read_admission
from agents.runs.prompting.queue import (
    QueueLimits,
    current_run,
    make_room_in_front,
    require_room,
    stop_run,
)
from agents.runs.prompting.remote_workers import require_possible_there, require_remote_worker
from agents.runs.rows import (
    NewRun,
    RunRow,
    author_json,
    insert_run,
    read_runs,
)
from agents.states import Priority, RunOutcome, Strategy
from agents.turn.options import NO_OPTIONS, RunOptions
from people.actions.audit import DONE, Act, record
from workspaces.access import Actor, author_of, is_person
from workspaces.actions.sessions import read_session, store_work
from workspaces.log.attached_data import store_attached
from workspaces.log.errors import (
    RunIdTaken,
    RunNotRepeatable,
    RunUnknown,
    SessionBusy,
    ShuttingDown,
)
from workspaces.log.parts import Binary, part_to_wire
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.measuring import Measured, measured
from workspaces.placement.remote_place import remote_place
from workspaces.tracing import current_trace, traced, with_trace


@dataclass(frozen=True, slots=True)
class PromptAttachment:
    file_path: str
    file_name: str
    mime_type: str
    content: str  # base64


@dataclass(frozen=True, slots=True)
class Prompt:
    session_id: str
    text: str
    run_id: str | None = None
    attachments: tuple[PromptAttachment, ...] = ()
    strategy: Strategy = Strategy.ENQUEUE
    options: RunOptions = NO_OPTIONS
    priority: Priority = Priority.INTERACTIVE

    def digest(self) -> str:
        """Returns a digest that is equal for two identical requests."""
        body: list[Any] = [self.session_id, self.text]
        for a in self.attachments:
            body += [a.file_path, a.file_name, a.mime_type, a.content]
        if self.strategy is not Strategy.ENQUEUE:
            body.append({"strategy": self.strategy.value})
        if self.options:
            body.append({"options": self.options.to_wire()})
        if self.priority is not Priority.INTERACTIVE:
            body.append({"priority": self.priority.value})
        return hashlib.sha256(orjson.dumps(body)).hexdigest()

    @property
    def replaces(self) -> bool:
        """Whether it ends the running turn."""
        return self.strategy in {Strategy.INTERRUPT, Strategy.ROLLBACK}

    @property
    def size(self) -> int:
        """Returns the bytes that the prompt takes in the queue; approximate for non-ASCII names."""
        return len(self.text.encode()) + sum(
            len(a.content) + len(a.file_path) + len(a.file_name) + len(a.mime_type)
            for a in self.attachments
        )

    def attached_parts(self) -> list[dict[str, Any]]:
        return [
            part_to_wire(Binary(a.file_path or a.file_name, a.mime_type, a.content))
            for a in self.attachments
        ]


@dataclass(frozen=True, slots=True)
class ParentCall:
    """The tool call that waits for a delegated run, and what it gives the run besides a prompt."""

    run_key: int
    call_id: str
    working_dir: str
    role: str
    author: Mapping[str, Any] | None  # who sent the prompt of the run that waits
    options: RunOptions = NO_OPTIONS  # of the same prompt


@dataclass(frozen=True, slots=True)
class Accepted:
    """The run of a prompt, which may have been accepted before."""

    key: int
    is_new: bool = True
    stopped: int | None = None  # the run that it ended, if its worker must abort it
    rolls_back: bool = False  # and that has ended, so that it can be undone


_is_refusing: list[bool] = []


def refuse_prompts(is_refusing: bool) -> None:
    """Refuses prompts while the only server on its data stops: they would wait for a restart."""
    _is_refusing[:] = [True] if is_refusing else []


async def accept(
    workspace_id: str,
    prompt: Prompt,
    *,
    limits: QueueLimits | None = None,
    client_id: str = "",
    actor: Actor | None = None,
) -> Accepted:
    """Writes the run, then nudges the workers. A repeated ``run_id`` is the same run.

    Raises the same as ``accept_run``.
    """
    return await accept_by(
        workspace_id,
        lambda tx: accept_run(
            tx, workspace_id, prompt, limits=limits, client_id=client_id, actor=actor
        ),
    )


async def accept_by(workspace_id: str, job: Callable[[Transaction], Accepted]) -> Accepted:
    """Writes the run that the job accepts, then nudges the workers."""
    if _is_refusing:
        raise ShuttingDown
    # First: two readers would delay it by 0.1 of 1.1 ms (`python -m tests.bench --figure turns`).
    with measured(Measured.ACCEPT), traced("accept"):
        accepted = await writer.write(workspace_id, with_trace(job), is_answered_first=True)
    if accepted.stopped is not None:
        await nudges.nudge_withdrawn([accepted.stopped])
    await nudges.nudge_accepted()
    if accepted.rolls_back:
        await finish_rollbacks()
    return accepted


async def summarize(
    workspace_id: str,
    session_id: str,
    *,
    limits: QueueLimits | None = None,
    actor: Actor | None = None,
) -> int | None:
    """Accepts a run that replaces the session's conversation by a summary; returns its key."""
    if _is_refusing:
        raise ShuttingDown
    key = await writer.write(
        workspace_id,
        lambda tx: accept_summary(tx, workspace_id, session_id, limits=limits, actor=actor),
    )
    if key is not None:
        await nudges.nudge_accepted()
    return key


def accept_summary(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    limits: QueueLimits | None = None,
    actor: Actor | None = None,
) -> int | None:
    """Stores the run and returns its key; nothing if the session has no messages to summarise."""
    if not read_session(tx, workspace_id, session_id)["message_count"]:
        return None
    kind, summary = RunKind.SUMMARY, Prompt(session_id, "")
    return accept_prompt(tx, workspace_id, summary, kind=kind, limits=limits, actor=actor)


def accept_run(
    tx: Transaction,
    workspace_id: str,
    prompt: Prompt,
    *,
    kind: RunKind = RunKind.PROMPT,
    delegated_by: ParentCall | None = None,
    limits: QueueLimits | None = None,
    client_id: str = "",
    actor: Actor | None = None,
    retry_of: int | None = None,
) -> Accepted:
    """Stores the run, and ends the one that it interrupts.

    Raises ``QueueFull``, ``RunIdTaken``, ``SessionBusy``, ``ClientRetired``, and the errors of
    ``read_admission`` and ``_require_place``. What a call has delegated needs no open workspace.
    """
    found = read_admission(
        tx,
        workspace_id,
        prompt.session_id,
        run_id=prompt.run_id,
        client_id=client_id,
        must_be_open=delegated_by is None,
    )
    is_busy, last_accept, digest = found.is_busy, found.last_accept, prompt.digest()
    if found.known is not None:
        if found.known.body_digest != digest:
            raise RunIdTaken
        return Accepted(found.known.key, is_new=False)
    _require_place(tx, found.path, prompt, kind)
    if is_busy:
        _require_possible(tx, prompt, limits)
    client_id = found.client_id if kind is RunKind.PROMPT else client_id
    if prompt.run_id is not None:
        # If the client retired while the request was under way, no client waits for the run.
        found.require_unretired()
    attached = store_attached(tx.cursor, workspace_id, prompt.attached_parts(), now=tx.now)
    replaced = current_run(tx, prompt.session_id) if is_busy and prompt.replaces else None
    run = NewRun(
        workspace_id=workspace_id,
        session_id=prompt.session_id,
        run_id=prompt.run_id,
        accept_number=_accept_number(tx, workspace_id, prompt, last_accept, is_busy=is_busy),
        kind=kind.value,
        prompt=prompt.text,
        attachments=orjson.dumps(attached).decode(),
        size=prompt.size,
        body_digest=digest,
        was_queued=is_busy,
        client_id=client_id,
        accepted_at=tx.now,
        parent_id=delegated_by.run_key if delegated_by is not None else None,
        parent_call_id=delegated_by.call_id if delegated_by is not None else "",
        working_dir=delegated_by.working_dir if delegated_by is not None else "",
        role=delegated_by.role if delegated_by is not None else "",
        author=author_json(delegated_by.author if delegated_by is not None else author_of(actor)),
        strategy=None if prompt.strategy is Strategy.ENQUEUE else prompt.strategy.value,
        options=(delegated_by.options if delegated_by is not None else prompt.options).stored(),
        is_scheduled=prompt.priority is Priority.SCHEDULED,
        is_from_person=kind is RunKind.PROMPT and is_person(actor),
        replaces=None if replaced is None else replaced.key,
        retry_of=retry_of,
        trace_context=current_trace(),
    )
    key = insert_run(tx, run)
    _append_accepted(tx, key, run, last_accept=last_accept + 1)
    _record(tx, actor, key, run)
    return Accepted(key) if replaced is None else _end_replaced(tx, key, replaced, prompt, actor)


def _require_place(tx: Transaction, path: str, prompt: Prompt, kind: RunKind) -> None:
    """Checks a run of a remote workspace. Raises ``WorkerAway``, ``RemoteFolder``, ``BadField``."""
    if (place := remote_place(path)) is None:
        return
    is_prompt, has_files = kind is RunKind.PROMPT, bool(prompt.attachments)
    require_possible_there(prompt.options, is_prompt=is_prompt, has_files=has_files)
    require_remote_worker(tx, place)


def _end_replaced(
    tx: Transaction, key: int, replaced: RunRow, prompt: Prompt, actor: Actor | None
) -> Accepted:
    """Ends the run that the new one replaces."""
    stopped = stop_run(tx, replaced, actor=actor)
    is_over = stopped is None and prompt.strategy is Strategy.ROLLBACK
    return Accepted(key, stopped=stopped, rolls_back=is_over)


def retry_run(
    tx: Transaction,
    workspace_id: str,
    key: int,
    *,
    run_id: str | None = None,
    limits: QueueLimits | None = None,
    client_id: str = "",
    actor: Actor | None = None,
) -> Accepted:
    """Accepts the prompt of a run that has ended without success once more, with its options.

    Raises ``RunUnknown``, ``RunNotRepeatable`` and the same as ``accept_run``.
    """
    rows = read_runs(tx, "r.id = %s AND r.workspace_id = %s", [key, workspace_id])
    if not rows:
        raise RunUnknown
    run = rows[0]
    succeeded = run.outcome in {"", RunOutcome.COMPLETED, RunOutcome.FOLDED}
    if run.kind != RunKind.PROMPT or succeeded:
        raise RunNotRepeatable
    files = tuple(
        PromptAttachment(part.path, "", part.mime_type, part.data)
        for part in run.user_parts(tx)
        if isinstance(part, Binary)
    )
    prompt = Prompt(run.session_id, run.prompt, run_id, files, options=run.options)
    return accept_run(
        tx,
        workspace_id,
        prompt,
        limits=limits,
        client_id=client_id,
        actor=actor,
        retry_of=key,
    )


def accept_prompt(tx: Transaction, workspace_id: str, prompt: Prompt, **more: Any) -> int:
    """Stores a run that ends no other one, and returns its key. Otherwise as ``accept_run``."""
    return accept_run(tx, workspace_id, prompt, **more).key


def _accept_number(
    tx: Transaction, workspace_id: str, prompt: Prompt, last_accept: int, *, is_busy: bool
) -> int:
    passes = prompt.replaces or prompt.strategy is Strategy.STEER
    if not is_busy or not passes:
        return last_accept + 1
    return make_room_in_front(tx, workspace_id, prompt.session_id, last_accept, prompt.strategy)


def _append_accepted(tx: Transaction, key: int, run: NewRun, *, last_accept: int) -> None:
    """Updates the session of a new run, and appends the event."""
    facts = run_facts(
        key=key,
        session_id=run.session_id,
        accept_number=run.accept_number,
        run_id=run.run_id,
        kind=run.kind,
        prompt=run.prompt[:PROMPT_SHOWN_CHARS],
        author=None if run.author is None else orjson.loads(run.author),
        strategy=run.strategy,
        options=None if run.options is None else orjson.loads(run.options),
        replaces=run.replaces,
        retry_of=run.retry_of,
    )
    tx.append(run.workspace_id, Kind.RUN_ACCEPTED, {"run": facts}, session_id=run.session_id)
    store_work(
        tx,
        run.workspace_id,
        run.session_id,
        is_busy=True,
        last_accept=last_accept,
        is_announced=not run.was_queued,
    )


def _record(tx: Transaction, actor: Actor | None, key: int, run: NewRun) -> None:
    record(
        tx,
        actor,
        Act.PROMPT if run.kind == RunKind.PROMPT else Act.SUMMARIZE,
        workspace_id=run.workspace_id,
        session_id=run.session_id,
        target=run.run_id or str(key),
        outcome="queued" if run.was_queued else DONE,
        details={
            name: value
            for name in ("strategy", "replaces", "retry_of")
            if (value := getattr(run, name)) is not None
        },
    )


def _require_possible(tx: Transaction, prompt: Prompt, limits: QueueLimits | None) -> None:
    """Raises ``SessionBusy`` or ``QueueFull`` if a busy session cannot accept the prompt."""
    if prompt.strategy is Strategy.REJECT:
        raise SessionBusy
    if prompt.strategy is Strategy.ROLLBACK:
        require_no_command(prompt.session_id)
    if limits is not None:
        require_room(tx, prompt.session_id, prompt.size, limits)
