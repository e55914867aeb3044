"""The kinds of events in the log, and what streams carry besides them.

Pure. Kinds are in the past tense, and are spelled the same in the database, on the wire, in tests
and in the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Kind(StrEnum):
    # Each payload holds the whole new state of what changed, so that folding the log
    # gives the rows.
    WORKSPACE_OPENED = "workspace.opened"
    WORKSPACE_UPDATED = "workspace.updated"
    WORKSPACE_CLOSED = "workspace.closed"
    SESSION_CREATED = "session.created"  # {session}
    SESSION_UPDATED = "session.updated"  # {session}
    SESSION_DELETED = "session.deleted"  # {session}
    MESSAGE_CREATED = "message.created"  # {message}: a user's or a tool's, whole at once
    MESSAGE_STARTED = "message.started"  # {message}: its number names it in deltas
    MESSAGE_RESTARTED = "message.restarted"  # {message, retry}: begun anew, with a new number
    MESSAGE_FINISHED = "message.finished"  # {message}: whole
    MESSAGE_UPDATED = "message.updated"  # {message}: a finished one that changed
    RUN_ACCEPTED = "run.accepted"  # {run}
    RUN_STARTED = "run.started"  # {run}
    RUN_PARKED = "run.parked"  # {run}
    RUN_RESUMED = "run.resumed"  # {run}
    RUN_FOLDED = "run.folded"  # {run}: its prompt was taken by another run
    RUN_FINISHED = "run.finished"  # {run}: exactly one for each accepted, unless folded
    AGENT_FAILED = "agent.failed"  # {session_id, run_id, error}
    PERMISSION_REQUESTED = "permission.requested"  # {request}
    PERMISSION_RESOLVED = "permission.resolved"  # {request_id, session_id, tool_call_id, …}
    QUESTION_ASKED = "question.asked"  # {batch}
    QUESTION_RESOLVED = "question.resolved"  # {batch_id, session_id, tool_call_id, state}
    FILE_VERSIONED = "file.versioned"  # {file}
    CONFIG_CHANGED = "config.changed"  # {workspace_id}
    SUMMARY_PROGRESSED = "summary.progressed"  # {session_id, progress, done}
    MCP_AWAITED = "mcp.awaited"  # {session_id, servers}: a run begins without their tools
    MCP_CHANGED = "mcp.changed"  # {mcp}: as clients draw it, with what changed
    LSP_CHANGED = "lsp.changed"  # {lsp}: as clients draw it, with what changed
    SKILLS_CHANGED = "skills.changed"  # {states}


class StreamOnly(StrEnum):
    """Told to a reader beside the log: these have no number of their own."""

    OPENED = "stream.opened"  # {number}: live from here
    PROGRESS = "message.progress"  # {message, number}: an open message as it stands now
    OUTPUT = "tool.output"  # {session_id, message_id, tool_call_id, text}: a tool as it runs
    RESUME = "stream.resume"  # {after}: too slow; come back with this cursor


Header: TypeAlias = str | Mapping[str, str] | None


class Delta(NamedTuple):
    """Words of an open message: they go to readers alone, never into the log.

    ``number`` is that of the event that started the message; ``offset`` counts
    the part's characters before this text. ``header`` says what the part is and
    comes with its first delta: "text", "reasoning", or a tool call's id and name.
    """

    number: int
    part: int
    offset: int
    text: str
    header: Header = None


class Output(NamedTuple):
    """What a tool, or a user's own command, has printed so far: each replaces the one before.

    Like deltas it never goes into the log. A user's command has no call.
    """

    session_id: str
    message_id: str
    call_id: str
    text: str  # bounded by whoever tells it


STARTING = frozenset({Kind.MESSAGE_STARTED, Kind.MESSAGE_RESTARTED})
CLOSING = frozenset({Kind.MESSAGE_FINISHED, Kind.MESSAGE_UPDATED})
