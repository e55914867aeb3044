"""Writes a sub-agent's row, its answer, and the prompts that it gets."""

from __future__ import annotations

import orjson

from agents.models import SubAgent, SubAgentState
from agents.runs.children.delegations import ANSWER
from agents.runs.lease import Lease, require_lease
from agents.runs.messages import fold_prompts
from agents.runs.steps import Step, Written, write_step
from workspaces.log.transaction import Transaction


def begin_sub_agent(tx: Transaction, held: Lease, *, role: str) -> None:
    require_lease(tx, held)
    SubAgent.objects.update_or_create(
        run_id=held.key,
        defaults={
            "workspace_id": held.workspace_id,
            "role": role,
            "state": SubAgentState.STARTING,
            "started_at": tx.now,
        },
    )


def note_sub_agent(_: Transaction, held: Lease, **facts: object) -> None:
    """What operators see of it. One that has ended, or went with its session, stays so."""
    row = SubAgent.objects.filter(run_id=held.key)
    row.exclude(state=SubAgentState.ENDED).update(**facts)


def end_sub_agent(
    tx: Transaction, held: Lease, step: Step, *, ending: str, answer: str, events: int
) -> Written:
    """Ends its run, and keeps what it answered for the call that waits."""
    run = require_lease(tx, held)
    if answer:
        ((errand,),) = tx.fetch("SELECT errand FROM agents_run WHERE id = %s", [run.key])
        kept = orjson.loads(errand) | {ANSWER: answer.replace("\x00", "\ufffd")}
        tx.execute(
            "UPDATE agents_run SET errand = %s WHERE id = %s",
            [orjson.dumps(kept).decode(), run.key],
        )
    written = write_step(tx, held, step)
    if not written.is_cancelled:
        # The run's end has marked it as ended; here is known how.
        SubAgent.objects.filter(run_id=held.key).update(ending=ending, events=events)
    return written


def take_prompts(tx: Transaction, held: Lease) -> list[str]:
    """The prompts that wait in its session without a run of their own: they steer it."""
    return fold_prompts(tx, require_lease(tx, held))
