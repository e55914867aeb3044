"""The fixed texts of a turn: results of calls that did not run, and reasons for its end. Pure.

Results are for the model, notes are for people. A stored denial is recognised by its
result, so that text must not change while turns are stored.
"""

from __future__ import annotations

from collections.abc import Iterable

CANCELLED_RESULT = "Cancelled by the user before it finished."
# Clients display a result as a warning instead of an error if it begins with this text.
DENIED_RESULT = "User denied permission for this call."
SKIPPED_RESULT = "User denied permission for another call of this reply: this one was not run."
EARLIER_DENIED_RESULTS = ("The user denied permission for this call.",)  # in stored turns
# Before the reason of a person who allowed a call, below its result.
ALLOWED_NOTE = "Note of the user who allowed this call: "
UNKNOWN_RESULT = (
    "The outcome of this call is unknown: the server stopped while the tool ran, and ended its"
    " processes. It may have had all, some or none of its effects. Check before you repeat it."
)
# After the first sentences, for a call about which a person has decided.
NOT_REPEATED_NOTE = "The user has decided not to run it again."
CUT_BY_POLICY = (
    "interrupted: the server stopped while a tool ran, and permissions.cut_calls ends the run then."
    " The outcome of the call is unknown"
)
SUB_AGENT_LOST = (
    "the server stopped while the sub-agent worked, and the outcome is unknown. It may have had"
    " all, some or none of its effects. Check before you delegate this again"
)
MOST_NAMED_TOOLS, TOOL_NAME_CHARS = 20, 80
CANCELLED_NOTE = "User canceled request"
REPEATED_NOTE = "Stopped: the same tool calls were repeated without progress."


def unknown_result(output: str, *, note: str = "") -> str:
    """Returns the result of a call whose tool was cut. ``output``: what it has printed until then."""
    result = f"{UNKNOWN_RESULT} {note}" if note else UNKNOWN_RESULT
    return f"{result}\n\nIts output until then:\n{output}" if output else result


def not_repeated(reason: str) -> str:
    """Returns the note about a person's decision. ``reason``: of that person, for the model."""
    return f"{NOT_REPEATED_NOTE} Reason: {reason}" if reason else NOT_REPEATED_NOTE


def lost_sub_agent(tools: Iterable[str]) -> str:
    """Returns the error of a sub-agent's run. ``tools``: those of the calls that it has reported."""
    names = [name[:TOOL_NAME_CHARS] for name in dict.fromkeys(tools)][:MOST_NAMED_TOOLS]
    return f"{SUB_AGENT_LOST}. It had called: {', '.join(names)}" if names else SUB_AGENT_LOST


def denied_result(reason: str = "") -> str:
    """Returns the result of a denied call. Only without a reason it ends the turn."""
    return f"{DENIED_RESULT} Reason: {reason}" if reason else DENIED_RESULT
