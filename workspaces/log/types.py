"""The kinds of events in the log, and the other items of streams.

Pure. Kinds are in the past tense and are spelled the same in the database, on the wire, in tests
and in the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Kind(StrEnum):
    # Each payload holds the complete new state of the changed object, so that applying the
    # log in order gives the rows.
    WORKSPACE_OPENED = "workspace.opened"
    WORKSPACE_UPDATED = "workspace.updated"
    WORKSPACE_CLOSED = "workspace.closed"
    SESSION_CREATED = "session.created"  # {session}
    SESSION_UPDATED = "session.updated"  # {session}
    SESSION_DELETED = "session.deleted"  # {session}
    SESSION_FORKED = "session.forked"  # {fork}: it has copies of another session's messages
    SESSION_REWOUND = "session.rewound"  # {rewind}: its newest messages were removed
    SESSION_REWIND_UNDONE = "session.rewind_undone"  # {rewind}: their message.created follow
    MESSAGE_CREATED = "message.created"  # {message}: a user's or a tool's, complete
    MESSAGE_STARTED = "message.started"  # {message}: its number names it in deltas
    MESSAGE_RESTARTED = "message.restarted"  # {message, retry}: restarted, with a new number
    MESSAGE_FINISHED = "message.finished"  # {message}: complete
    MESSAGE_UPDATED = "message.updated"  # {message}: a finished one that changed
    RUN_ACCEPTED = "run.accepted"  # {run}
    RUN_STARTED = "run.started"  # {run}
    RUN_PARKED = "run.parked"  # {run}
    RUN_RESUMED = "run.resumed"  # {run}
    RUN_FOLDED = "run.folded"  # {run}: its prompt was taken by another run
    RUN_UPDATED = "run.updated"  # {run}: a prompt that waits was changed
    RUN_FINISHED = "run.finished"  # {run}: exactly one for each accepted run, unless folded
    QUEUE_REORDERED = "queue.reordered"  # {session_id, runs}: those with a new accept number
    AGENT_FAILED = "agent.failed"  # {session_id, run_id, error}
    PERMISSION_REQUESTED = "permission.requested"  # {request}
    PERMISSION_RESOLVED = "permission.resolved"  # {request_id, session_id, tool_call_id, …}
    PERMISSION_OVERDUE = "permission.overdue"  # {request_id, session_id, tool_call_id, …}
    GRANT_CREATED = "grant.created"  # {grant}
    GRANT_REVOKED = "grant.revoked"  # {grant}
    APPROVAL_POLICY_CHANGED = "approval_policy.changed"  # {policy}
    QUESTION_ASKED = "question.asked"  # {batch}
    QUESTION_RESOLVED = "question.resolved"  # {batch_id, session_id, tool_call_id, state, author}
    QUESTION_OVERDUE = "question.overdue"  # {batch_id, session_id, tool_call_id, waiting_seconds}
    JOB_ENDED = "job.ended"  # {job}: a background command of a model
    FILE_VERSIONED = "file.versioned"  # {file}
    CONFIG_CHANGED = "config.changed"  # {workspace_id}
    SUMMARY_PROGRESSED = "summary.progressed"  # {session_id, progress, done}
    MCP_AWAITED = "mcp.awaited"  # {session_id, servers}: a run starts without their tools
    MCP_CHANGED = "mcp.changed"  # {mcp}: the form that clients show, with the change
    LSP_CHANGED = "lsp.changed"  # {lsp}: the form that clients show, with the change
    SKILLS_CHANGED = "skills.changed"  # {states}


class StreamOnly(StrEnum):
    """Items that a stream sends in addition to the log; they have no number."""

    OPENED = "stream.opened"  # {number}: live from here
    PROGRESS = "message.progress"  # {message, number}: an open message in full
    OUTPUT = "tool.output"  # {session_id, message_id, tool_call_id, text}: output so far
    RESUME = "stream.resume"  # {after}: the reader is too slow and must resume with this cursor


Header: TypeAlias = str | Mapping[str, str] | None


class Delta(NamedTuple):
    """New text of an open message, sent to readers and never stored in the log.

    ``number`` is that of the event that started the message; ``offset`` counts
    the part's characters before this text. ``header`` is the type of the part, set
    in its first delta only: "text", "reasoning", or a tool call's id and name.
    """

    number: int
    part: int
    offset: int
    text: str
    header: Header = None


class Output(NamedTuple):
    """The output so far of a tool or a user's command; each one replaces the previous one.

    Like a delta it is never stored in the log. ``call_id`` is empty for a user's command.
    """

    session_id: str
    message_id: str
    call_id: str
    text: str  # bounded by the sender


STARTING = frozenset({Kind.MESSAGE_STARTED, Kind.MESSAGE_RESTARTED})
CLOSING = frozenset({Kind.MESSAGE_FINISHED, Kind.MESSAGE_UPDATED})
