"""The log's lines of what was committed: workspaces that open and close, runs that begin and end.

Reads events, so each line is a fact and told once, whoever made it. Knows no
prompt, word or path beyond ids.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from workspaces.events.types import Kind
from workspaces.storage.transaction import Recorded

logger = logging.getLogger(__name__)

Publish: TypeAlias = Callable[[Sequence[Recorded]], None]

_TOLD: Mapping[str, str] = {
    Kind.WORKSPACE_OPENED: "workspace opened",
    Kind.WORKSPACE_CLOSED: "workspace closed",
    Kind.RUN_STARTED: "run started",
    Kind.RUN_PARKED: "run waits for an answer",
    Kind.RUN_RESUMED: "run goes on",
    Kind.RUN_FINISHED: "run finished",
}


def logging_lifecycle(publish: Publish) -> Publish:
    """Hands the events on first: nobody waits for the log."""

    def publish_and_log(recorded: Sequence[Recorded]) -> None:
        publish(recorded)
        for event in recorded:
            what = _TOLD.get(event.kind)
            if what is not None:
                _log(what, event)

    return publish_and_log


def _log(what: str, event: Recorded) -> None:
    run = event.payload.get("run", {})
    outcome = run.get("outcome", "")
    logger.info(
        "%s%s",
        what,
        f": {outcome}" if outcome else "",
        extra={
            "workspace": event.workspace_id,
            "session": event.session_id,
            "run": run.get("run_id") or run.get("key", ""),
        },
    )
