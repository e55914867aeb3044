"""What a tool tells while it runs, on its way to the clients that watch."""

from __future__ import annotations

from collections.abc import Callable

from agents.tools import limits
from workspaces.delivery.tool_output import tell_output
from workspaces.log.types import Output


def progress_of(
    workspace_id: str, *, session_id: str, message_id: str, call_id: str
) -> Callable[[str], None]:
    """Takes all of the call's output so far. Cheap, also when it is called often; in the loop."""

    def progress(text: str) -> None:
        told = limits.cut_middle(text, limits.LIVE_OUTPUT_BYTES)
        tell_output(workspace_id, Output(session_id, message_id, call_id, told))

    return progress
