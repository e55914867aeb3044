"""Accepts a prompt or a request for a summary: one transaction stores the run and its event.

The run is durable when this returns, even if the client has left.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from agents.models import RunKind
from agents.runs import nudges
from agents.runs.rows import PROMPT_SHOWN_CHARS, NewRun, insert_run, run_facts
from workspaces.actions.claims import only_client, require_unretired
from workspaces.actions.sessions import read_session, tell_session
from workspaces.log.attached_data import store_attached
from workspaces.log.errors import (
    QueueFull,
    RunIdTaken,
    SessionUnknown,
    ShuttingDown,
    WorkspaceUnknown,
)
from workspaces.log.parts import Binary, part_to_wire
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer


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

    def digest(self) -> str:
        """Two prompts with the same digest are the same request."""
        body = [self.session_id, self.text]
        for a in self.attachments:
            body += [a.file_path, a.file_name, a.mime_type, a.content]
        return hashlib.sha256(orjson.dumps(body)).hexdigest()

    @property
    def size(self) -> int:
        """Bytes that it takes while it waits; nearly, where names are not ASCII."""
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
class QueueLimits:
    """What may wait in one session. The first prompt that waits is accepted whatever its size."""

    prompts: int
    size: int  # bytes


_is_refusing: list[bool] = []


def refuse_prompts(is_refusing: bool) -> None:
    """While the only server on its data stops: what it accepted now would wait for its next start."""
    _is_refusing[:] = [True] if is_refusing else []


async def accept(
    workspace_id: str,
    prompt: Prompt,
    *,
    limits: QueueLimits | None = None,
    client_id: str = "",
) -> None:
    """Writes the run, then wakes the workers. The same ``run_id`` again is the same run.

    Raises what ``accept_prompt`` does.
    """
    if _is_refusing:
        raise ShuttingDown
    await writer.write(
        workspace_id,
        lambda tx: accept_prompt(tx, workspace_id, prompt, limits=limits, client_id=client_id),
    )
    await nudges.nudge_accepted()


async def summarize(
    workspace_id: str, session_id: str, *, limits: QueueLimits | None = None
) -> None:
    """A run that replaces the session's conversation by a summary of it."""
    if _is_refusing:
        raise ShuttingDown
    if await writer.write(
        workspace_id, lambda tx: accept_summary(tx, workspace_id, session_id, limits=limits)
    ):
        await nudges.nudge_accepted()


def accept_summary(
    tx: Transaction, workspace_id: str, session_id: str, *, limits: QueueLimits | None = None
) -> bool:
    """``False`` where nothing was said that could be summarised."""
    if not read_session(tx, workspace_id, session_id)["message_count"]:
        return False
    accept_prompt(tx, workspace_id, Prompt(session_id, ""), kind=RunKind.SUMMARY, limits=limits)
    return True


def accept_prompt(
    tx: Transaction,
    workspace_id: str,
    prompt: Prompt,
    *,
    kind: RunKind = RunKind.PROMPT,
    needs_open: bool = True,
    limits: QueueLimits | None = None,
    client_id: str = "",
) -> int:
    """Returns the run's key.

    Raises ``QueueFull``, ``RunIdTaken``, ``SessionUnknown``, ``WorkspaceUnknown``.

    ``client_id``: who sends it. Without one it is the workspace's only client, if there is
    just one. Raises ``ClientRetired``.

    A run that another one sends for needs nobody to be attached.
    """
    rows = tx.fetch(
        "SELECT w.is_open, s.is_deleting, s.is_busy, s.last_accept FROM workspaces_session s"
        " JOIN workspaces_workspace w ON w.id = s.workspace_id"
        " WHERE s.id = %s AND s.workspace_id = %s",
        [prompt.session_id, workspace_id],
    )
    if not rows or rows[0][1]:
        raise SessionUnknown
    is_open, _, is_busy, last_accept = rows[0]
    if needs_open and not is_open:
        raise WorkspaceUnknown
    digest = prompt.digest()
    if prompt.run_id is not None:
        known = tx.fetch(
            "SELECT id, body_digest FROM agents_run WHERE workspace_id = %s AND run_id = %s",
            [workspace_id, prompt.run_id],
        )
        if known and known[0][1] != digest:
            raise RunIdTaken
        if known:
            return int(known[0][0])
    if is_busy and limits is not None:
        _require_room(tx, prompt, limits)
    if kind is RunKind.PROMPT:
        client_id = client_id or only_client(tx, workspace_id)
    if prompt.run_id is not None:
        # Its client left while the prompt was on its way: nobody waits for the run.
        require_unretired(tx, client_id)
    attached = store_attached(tx.cursor, workspace_id, prompt.attached_parts(), now=tx.now)
    key = insert_run(
        tx,
        NewRun(
            workspace_id=workspace_id,
            session_id=prompt.session_id,
            run_id=prompt.run_id,
            accept_number=last_accept + 1,
            kind=kind.value,
            prompt=prompt.text,
            attachments=orjson.dumps(attached).decode(),
            size=prompt.size,
            body_digest=digest,
            was_queued=bool(is_busy),
            client_id=client_id,
            accepted_at=tx.now,
        ),
    )
    tx.execute(
        "UPDATE workspaces_session SET last_accept = %s, is_busy = %s, updated_at = %s"
        " WHERE id = %s",
        [last_accept + 1, True, tx.now, prompt.session_id],
    )
    run = run_facts(
        key=key,
        session_id=prompt.session_id,
        accept_number=last_accept + 1,
        run_id=prompt.run_id,
        kind=kind.value,
        prompt=prompt.text[:PROMPT_SHOWN_CHARS],
    )
    tx.append(workspace_id, Kind.RUN_ACCEPTED, {"run": run}, session_id=prompt.session_id)
    if not is_busy:
        tell_session(tx, workspace_id, prompt.session_id)
    return key


def _require_room(tx: Transaction, prompt: Prompt, limits: QueueLimits) -> None:
    ((count, size),) = tx.fetch(
        "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM agents_run"
        " WHERE session_id = %s AND state = 'accepted'",
        [prompt.session_id],
    )
    if count and (count >= limits.prompts or size + prompt.size > limits.size):
        raise QueueFull(
            f"the session's queue is full: {count} prompts with {size} bytes wait, and"
            f" {limits.prompts} prompts with {limits.size} bytes are the most;"
            " wait for some to be done, or clear the queue"
        )
