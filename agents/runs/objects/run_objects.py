"""A run as events, snapshots and endpoints show it."""

from __future__ import annotations

from typing import Any

from agents.models import RunKind
from agents.runs.rows import RunRow

PROMPT_SHOWN_CHARS = 2_000


def run_wire(run: RunRow, **more: Any) -> dict[str, Any]:
    """Returns the facts about a run that its events contain."""
    facts = run_facts(
        key=run.key,
        session_id=run.session_id,
        accept_number=run.accept_number,
        run_id=run.run_id,
        message_id=run.message_id,
        kind=run.kind,
        author=run.author,
        strategy=run.strategy,
        options=run.options.to_wire() or None,
        replaces=run.replaces,
        rewind_id=run.rewind_id or None,
        retry_of=run.retry_of,
    )
    return {**facts, **more}


def run_facts(
    *,
    key: int,
    session_id: str,
    accept_number: int,
    run_id: str | None,
    message_id: str = "",
    kind: str = RunKind.PROMPT,
    **more: Any,
) -> dict[str, Any]:
    """Returns the facts about a run; those without a value are left out."""
    facts: dict[str, Any] = {
        "key": key,
        "session_id": session_id,
        "accept_number": accept_number,
    }
    if message_id:
        facts["message_id"] = message_id
    if run_id is not None:
        facts["run_id"] = run_id
    if kind != RunKind.PROMPT:
        facts["kind"] = kind
    return facts | {name: value for name, value in more.items() if value is not None}
