"""Begins a claimed run: stores its prompt, alone or together with the start of its first reply."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.models import RunKind
from agents.runs.finish import close_session_work, settle_cancelled
from agents.runs.lease import Lease, require_lease
from agents.runs.messages import fold_prompts, store_prompt
from agents.runs.objects.run_objects import run_wire
from agents.runs.rows import RunRow
from agents.runs.steps import Step, Written, write_step_of
from agents.runs.transitions import mark_started
from agents.turn.transcript import TurnMessage
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A run that has begun, and what its first step has written."""

    run: RunRow
    written: Written
    prompt: tuple[TurnMessage, ...]  # the message of its prompt; a request for a summary has none


def begin_run(tx: Transaction, held: Lease) -> RunRow | None:
    """Starts a run and stores its prompt; returns ``None`` if it was cancelled before its start.

    A cancelled run is ended here. Raises ``LeaseLost``.
    """
    run = require_lease(tx, held)
    if run.is_cancelled:
        settle_cancelled(tx, run)
        close_session_work(tx, run.workspace_id, run.session_id)
        return None
    if run.started_at is not None:
        tx.append(
            run.workspace_id, Kind.RUN_RESUMED, {"run": run_wire(run)}, session_id=run.session_id
        )
    else:
        _start(tx, run)
    return run


def begin_with_step(
    tx: Transaction, held: Lease, step: Step, *, message_count: int
) -> FirstStep | None:
    """As ``begin_run`` for a run that has never begun, with its first step.

    One transaction less than both: a person waits for them. ``message_count``: of the session, when
    the run read its transcript. Raises ``LeaseLost``.
    """
    run = require_lease(tx, held)
    if run.is_cancelled:
        settle_cancelled(tx, run)
        close_session_work(tx, run.workspace_id, run.session_id)
        return None
    prompt, has_more = _start(tx, run)
    written = write_step_of(tx, run, step)
    has_more = has_more or run.session_messages != message_count
    return FirstStep(run, replace(written, folded=written.folded or has_more), prompt)


def _start(tx: Transaction, run: RunRow) -> tuple[tuple[TurnMessage, ...], bool]:
    """Returns the message of the prompt, and whether other prompts joined it."""
    prompt = () if run.kind == RunKind.SUMMARY else (store_prompt(tx, run),)
    mark_started(tx, run.key)
    tx.append(run.workspace_id, Kind.RUN_STARTED, {"run": run_wire(run)}, session_id=run.session_id)
    has_more = False
    if run.was_queued and run.run_id is None and run.kind == RunKind.PROMPT:
        # Fold in prompts queued without a run_id.
        has_more = bool(fold_prompts(tx, run))
    return prompt, has_more
