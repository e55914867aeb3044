"""The reply that a model is giving: its words so far, and that they were forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import orjson

from agents.runs.lease import Held, hold
from workspaces.actions import messages
from workspaces.log.parts import Parts, parts_to_wire
from workspaces.log.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed try, and the pause before the next."""

    attempt: int  # the next one's number
    attempts: int  # how many there are at most
    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The words of an open reply so far."""

    held: Held
    message_id: str
    stream_number: int
    parts: Parts


def save_checkpoints(tx: Transaction, checkpoints: Sequence[Checkpoint]) -> None:
    """No event: readers have had the words. One whose claim is lost, whose message is finished
    or has begun anew meanwhile changes nothing."""
    tx.cursor.executemany(
        "UPDATE workspaces_message SET parts = %s, updated_at = %s WHERE id = %s"
        " AND stream_number = %s"
        " AND EXISTS (SELECT 1 FROM agents_run WHERE id = %s AND fence = %s)",
        [
            (
                orjson.dumps(parts_to_wire(c.parts)).decode(),
                tx.now,
                c.message_id,
                c.stream_number,
                c.held.key,
                c.held.fence,
            )
            for c in checkpoints
        ],
    )


def restart_reply(tx: Transaction, held: Held, message_id: str, retry: Retry) -> int:
    """The model's try failed and is repeated: its words so far are forgotten."""
    run = hold(tx, held)
    return messages.restart_message(tx, run.workspace_id, message_id, retry=asdict(retry))
