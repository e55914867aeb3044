"""The type and the meaning of each native event and of each other item of a stream.

Pure. A new kind needs a line in ``EVENTS`` or ``STREAM_ITEMS``, and a new field of an object one in
its type: tests compare them with ``workspaces.log.types`` and with recorded streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from workspaces.log.types import Kind, StreamOnly
from workspaces.schemas.payloads import (
    AgentFailure,
    ApprovalPolicyChange,
    FileChange,
    GrantChange,
    JobOutcome,
    LanguageServerChange,
    McpServerChange,
    McpWait,
    MessageChange,
    MessageRestart,
    OpenMessage,
    PermissionDelay,
    PermissionOpening,
    PermissionResolution,
    QuestionDelay,
    QuestionOpening,
    QuestionResolution,
    QueueOrder,
    RunChange,
    SessionChange,
    SessionFork,
    SessionRewind,
    SkillsChange,
    StreamOpening,
    StreamResumption,
    SummaryProgress,
    ToolOutput,
    WorkspaceChange,
    WorkspaceName,
)


class ItemShape(NamedTuple):
    """What one type of item contains."""

    data: type
    meaning: str  # a sentence for clients


EVENTS: Mapping[Kind, ItemShape] = {
    Kind.WORKSPACE_OPENED: ItemShape(WorkspaceChange, "A folder was opened, or opened again."),
    Kind.WORKSPACE_UPDATED: ItemShape(WorkspaceChange, "Its settings have changed."),
    Kind.WORKSPACE_CLOSED: ItemShape(
        WorkspaceName, "It was closed: requests get 404 until its path is opened again."
    ),
    Kind.SESSION_CREATED: ItemShape(SessionChange, "A session was created."),
    Kind.SESSION_UPDATED: ItemShape(
        SessionChange, "A session has changed, for instance its title, its usage or its todos."
    ),
    Kind.SESSION_DELETED: ItemShape(SessionChange, "A session was deleted."),
    Kind.SESSION_FORKED: ItemShape(
        SessionFork, "A new session has copies of another one's messages."
    ),
    Kind.SESSION_REWOUND: ItemShape(
        SessionRewind, "These messages, the newest of the session, were removed."
    ),
    Kind.SESSION_REWIND_UNDONE: ItemShape(
        SessionRewind, "These messages are back; a `message.created` for each follows."
    ),
    Kind.MESSAGE_CREATED: ItemShape(
        MessageChange,
        "A message is complete that was not streamed: a user's, a tool's, or a short reply.",
    ),
    Kind.MESSAGE_STARTED: ItemShape(
        MessageChange, "A reply begins, still empty. Deltas with the number of this event follow."
    ),
    Kind.MESSAGE_RESTARTED: ItemShape(
        MessageRestart,
        "An attempt failed: discard the text. It comes again, with the number of this event.",
    ),
    Kind.MESSAGE_FINISHED: ItemShape(
        MessageChange,
        "The message is complete. On a live stream, parts whose deltas you have contain `length` instead of the text.",
    ),
    Kind.MESSAGE_UPDATED: ItemShape(MessageChange, "A finished message has changed."),
    Kind.RUN_ACCEPTED: ItemShape(RunChange, "A prompt is stored and survives a crash."),
    Kind.RUN_UPDATED: ItemShape(RunChange, "A prompt that waits was changed."),
    Kind.QUEUE_REORDERED: ItemShape(QueueOrder, "Prompts in a queue have changed places."),
    Kind.RUN_STARTED: ItemShape(RunChange, "A worker has begun it."),
    Kind.RUN_PARKED: ItemShape(RunChange, "It waits for an answer and occupies no worker."),
    Kind.RUN_RESUMED: ItemShape(RunChange, "It continues, after an answer or in another worker."),
    Kind.RUN_FOLDED: ItemShape(
        RunChange, "Its prompt has joined the running turn; it gets no other end."
    ),
    Kind.RUN_FINISHED: ItemShape(
        RunChange, "It has ended. There is exactly one for each accepted run that was not folded."
    ),
    Kind.AGENT_FAILED: ItemShape(AgentFailure, "A run fails; its `run.finished` follows."),
    Kind.PERMISSION_REQUESTED: ItemShape(
        PermissionOpening, "A tool call, or the configuration of a folder, waits for a person."
    ),
    Kind.PERMISSION_RESOLVED: ItemShape(
        PermissionResolution, "The request was answered, or its run was cancelled."
    ),
    Kind.PERMISSION_OVERDUE: ItemShape(
        PermissionDelay, "There was no answer within the time of the policy; once for each request."
    ),
    Kind.GRANT_CREATED: ItemShape(
        GrantChange, "An answer also counts for later calls, or for more of them than before."
    ),
    Kind.GRANT_REVOKED: ItemShape(GrantChange, "A grant no longer counts."),
    Kind.APPROVAL_POLICY_CHANGED: ItemShape(
        ApprovalPolicyChange, "The policy has changed, also for requests that are open."
    ),
    Kind.QUESTION_ASKED: ItemShape(QuestionOpening, "A tool has questions for the user."),
    Kind.QUESTION_RESOLVED: ItemShape(
        QuestionResolution, "The questions were answered or dismissed, or their run was cancelled."
    ),
    Kind.QUESTION_OVERDUE: ItemShape(
        QuestionDelay, "There was no answer within the time of the policy; once for each batch."
    ),
    Kind.JOB_ENDED: ItemShape(
        JobOutcome, "A background command of a model has ended, or was lost with its server."
    ),
    Kind.FILE_VERSIONED: ItemShape(FileChange, "A tool has changed a file."),
    Kind.CONFIG_CHANGED: ItemShape(WorkspaceName, "The configuration has changed; read it again."),
    Kind.SUMMARY_PROGRESSED: ItemShape(SummaryProgress, "A session is being summarised."),
    Kind.MCP_AWAITED: ItemShape(
        McpWait, "A run has waited a second for these MCP servers and starts without their tools."
    ),
    Kind.MCP_CHANGED: ItemShape(
        McpServerChange, "An MCP server's state, tools, prompts or resources have changed."
    ),
    Kind.LSP_CHANGED: ItemShape(
        LanguageServerChange, "A language server's state or its number of diagnostics has changed."
    ),
    Kind.SKILLS_CHANGED: ItemShape(SkillsChange, "The skills were read again."),
}

STREAM_ITEMS: Mapping[StreamOnly, ItemShape] = {
    StreamOnly.OPENED: ItemShape(
        StreamOpening, "Everything up to this number has been sent; the stream is live from here."
    ),
    StreamOnly.PROGRESS: ItemShape(
        OpenMessage,
        "An open message so far: when you connect in its middle, and after deltas were lost between processes.",
    ),
    StreamOnly.OUTPUT: ItemShape(
        ToolOutput, "The output so far of a running tool or of a user's command."
    ),
    StreamOnly.RESUME: ItemShape(
        StreamResumption, "You read too slowly: the stream ends. Reconnect with this cursor."
    ),
}
