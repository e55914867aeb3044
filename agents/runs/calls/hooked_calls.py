"""What hooks said of a run's open calls, kept with the run: no hook is asked twice of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from agents.runs.lease import Held, hold
from workspaces.actions import messages
from workspaces.log.parts import ToolCall, parts_from_wire
from workspaces.log.transaction import Transaction

HOOKS = "hooks"  # where they stand in a run's errand


def keep_hooked(
    tx: Transaction,
    held: Held,
    said: Mapping[str, Mapping[str, Any]],
    *,
    message_id: str,
    rewritten: ToolCall | None,
) -> None:
    """``said``: by call. A call that hooks rewrote is shown and run as it is from now on."""
    run = hold(tx, held)
    ((errand,),) = tx.fetch("SELECT errand FROM agents_run WHERE id = %s", [run.key])
    kept = orjson.loads(errand) | {HOOKS: dict(said)}
    tx.execute(
        "UPDATE agents_run SET errand = %s WHERE id = %s", [orjson.dumps(kept).decode(), run.key]
    )
    if rewritten is None:
        return
    ((wire,),) = tx.fetch("SELECT parts FROM workspaces_message WHERE id = %s", [message_id])
    parts = tuple(
        replace(part, input=rewritten.input)
        if isinstance(part, ToolCall) and part.id == rewritten.id
        else part
        for part in parts_from_wire(orjson.loads(wire))
    )
    messages.change_message(tx, run.workspace_id, message_id, parts=parts)
