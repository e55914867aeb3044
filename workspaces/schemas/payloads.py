"""What each event and each other item of a stream contains, with a description of every field.

Pure. See ``objects`` for the conventions.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from workspaces.schemas.approvals import (
    ApprovalPolicyData,
    GrantData,
    PermissionRequestData,
    QuestionBatchData,
)
from workspaces.schemas.messages import AuthorData, MessageData, RetryData
from workspaces.schemas.objects import (
    FileData,
    ForkData,
    JobData,
    LanguageServerData,
    McpServerData,
    QueuePlaceData,
    RewindData,
    RunData,
    SessionData,
    SkillStateData,
    WorkspaceData,
)


class WorkspaceChange(TypedDict):
    """A workspace."""

    workspace: WorkspaceData
    """Its complete new state."""


class WorkspaceName(TypedDict):
    """Only which workspace it is."""

    workspace_id: str
    """The workspace's id."""


class SessionChange(TypedDict):
    """A session."""

    session: SessionData
    """Its complete new state."""


class SessionRewind(TypedDict):
    """A rewind of a session."""

    rewind: RewindData
    """The rewind."""


class SessionFork(TypedDict):
    """A fork of a session."""

    fork: ForkData
    """The new session and what it was copied from."""


class MessageChange(TypedDict):
    """A message."""

    message: MessageData
    """Its complete new state."""


class MessageRestart(TypedDict):
    """A reply that starts again."""

    message: MessageData
    """The message, without content."""
    retry: RetryData
    """Why it starts again, and when."""


class RunChange(TypedDict):
    """A run."""

    run: RunData
    """The facts about it."""


class QueueOrder(TypedDict):
    """The queue of a session."""

    session_id: str
    """The session."""
    runs: list[QueuePlaceData]
    """The prompts that have another place now."""


class AgentFailure(TypedDict):
    """Why a run failed."""

    session_id: str
    """The run's session."""
    run_id: str
    """The id that the client gave the run; empty without one."""
    error: str
    """The error, for a person."""
    kind: NotRequired[Literal["agent", "fetch", "fleet"]]
    """What the run is, if it is a delegation."""


class PermissionOpening(TypedDict):
    """A permission request that opens."""

    request: PermissionRequestData
    """The request."""


class PermissionResolution(TypedDict):
    """A permission request that closes."""

    request_id: str
    """The request."""
    session_id: str
    """Its session; empty for a request about trust."""
    tool_call_id: str
    """The call that waited for it."""
    granted: bool
    """Whether the call may run."""
    denied: bool
    """Whether it may not; also when its run was cancelled."""
    state: NotRequired[Literal["allowed", "denied", "withdrawn"]]
    """How it closed; absent in older events about trust."""
    author: NotRequired[AuthorData | None]
    """Who answered; null if its run was cancelled."""
    reason: NotRequired[str]
    """The reason that the model reads."""
    scope: NotRequired[Literal["once", "run", "session", "workspace"]]
    """How far the answer reaches."""
    until: NotRequired[int]
    """When its grants end."""
    has_changed_arguments: NotRequired[bool]
    """True if the call runs with other arguments than the model's."""


class PermissionDelay(TypedDict):
    """A permission request that waits longer than the policy wants."""

    request_id: str
    """The request."""
    session_id: str
    """Its session."""
    tool_call_id: str
    """The call that waits for it."""
    waiting_seconds: int
    """For how long it has waited."""


class GrantChange(TypedDict):
    """A grant."""

    grant: GrantData
    """The grant."""


class ApprovalPolicyChange(TypedDict):
    """The policy of a workspace for requests without an answer."""

    policy: ApprovalPolicyData
    """Its new state."""


class QuestionOpening(TypedDict):
    """A batch of questions that opens."""

    batch: QuestionBatchData
    """The batch."""


class QuestionResolution(TypedDict):
    """A batch of questions that closes."""

    batch_id: str
    """The batch."""
    session_id: str
    """Its session."""
    tool_call_id: str
    """The call that waited for it."""
    state: Literal["answered", "dismissed", "withdrawn"]
    """How it closed; `withdrawn` if its run was cancelled."""
    author: AuthorData | None
    """Who answered or dismissed them; null if their run was cancelled."""


class QuestionDelay(TypedDict):
    """A batch of questions that waits longer than the policy wants."""

    batch_id: str
    """The batch."""
    session_id: str
    """Its session."""
    tool_call_id: str
    """The call that waits for the answers."""
    waiting_seconds: int
    """For how long it has waited."""


class FileChange(TypedDict):
    """A file that a tool changed."""

    file: FileData
    """The stored version."""


class SummaryProgress(TypedDict):
    """How far a summary is."""

    session_id: str
    """The session that is summarised."""
    progress: str
    """What is being done, for a person; empty at the end."""
    done: bool
    """Whether it has ended."""


class McpWait(TypedDict):
    """A run that starts without the tools of some MCP servers."""

    session_id: str
    """The run's session."""
    servers: list[str]
    """The servers, whose tools join at a later step."""


class McpServerChange(TypedDict):
    """An MCP server."""

    mcp: McpServerData
    """Its state."""


class JobOutcome(TypedDict):
    """A background command that has ended."""

    job: JobData
    """The command."""


class LanguageServerChange(TypedDict):
    """A language server."""

    lsp: LanguageServerData
    """Its state."""


class SkillsChange(TypedDict):
    """The skills were read again."""

    states: list[SkillStateData]
    """All skills of the workspace, with those that are invalid."""


class StreamOpening(TypedDict):
    """Everything so far has been sent, and the stream is live."""

    number: int
    """The newest event that was sent."""


class OpenMessage(TypedDict):
    """An open message in full. It replaces the content that you have of it."""

    number: int
    """The number of the event that started the message, which names it in deltas."""
    message: MessageData
    """Its content so far."""


class ToolOutput(TypedDict):
    """The output of a running command so far. It replaces the output that you have."""

    session_id: str
    """The session."""
    message_id: str
    """The message with the tool call, or with the user's command."""
    tool_call_id: str
    """The tool call; empty for a user's command."""
    text: str
    """The output, at most its last 16,000 bytes."""


class StreamResumption(TypedDict):
    """You read too slowly: the stream ends, and nothing is lost if you resume."""

    after: int
    """The cursor with which to resume."""


class CommandReply(TypedDict):
    """The reply to a command, on the WebSocket."""

    type: Literal["reply"]
    """Always `reply`."""
    id: Any
    """The id of the command."""
    ok: bool
    """Whether it was carried out."""
    code: NotRequired[str]
    """Why it was not, as a stable code."""
    message: NotRequired[str]
    """Why it was not, for a person."""
    data: NotRequired[dict[str, Any]]
    """What the command returns, for instance `resolved`."""
