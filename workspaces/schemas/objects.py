"""The objects in native events, without messages and approvals, as types with a description of every field.

Pure. ``workspaces.rest.stream_schema`` makes the JSON Schemas of ``/api/schema/events`` from these
types: the docstring of a class describes an object, the text below a field describes the field, and
the name of a class without ``Data`` is the name of its schema. Times are unix seconds.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from workspaces.schemas.messages import AuthorData


class WorkspaceData(TypedDict):
    """A folder that clients have opened."""

    id: str
    """The workspace's id."""
    path: str
    """The folder, absolute and with symlinks resolved."""
    skip_permissions: bool
    """Whether tools run without permission requests."""
    permission_mode: Literal["normal", "yolo", "sysadmin"]
    """The permission mode; only clients distinguish `yolo` and `sysadmin`."""


class TodoData(TypedDict):
    """An item of the list that the model keeps about its work."""

    content: str
    """What is to do."""
    status: str
    """`pending`, `in_progress` or `completed`."""
    active_form: str
    """The same in the form that is shown while the model works on it."""


class SessionData(TypedDict):
    """A conversation in a workspace. In events, fields that are 0, false or empty are left out."""

    id: str
    """The session's id. A child session's is `MESSAGE_ID$$TOOL_CALL_ID` of the call that began it."""
    title: str
    """The title; it may be empty."""
    created_at: int
    """When it was created."""
    updated_at: int
    """When it last changed."""
    parent_session_id: NotRequired[str]
    """The session whose run waits for this one; only of child sessions."""
    message_count: NotRequired[int]
    """The number of its messages."""
    prompt_tokens: NotRequired[int]
    """Those of its last model request."""
    completion_tokens: NotRequired[int]
    """Those of its last model request."""
    total_prompt_tokens: NotRequired[int]
    """Those of all its model requests, titles and summaries included."""
    total_completion_tokens: NotRequired[int]
    """Those of all its model requests, titles and summaries included."""
    cost: NotRequired[float]
    """The cost of all its model requests and of its child sessions."""
    summary_message_id: NotRequired[str]
    """The message with its newest summary, at which the conversation for the model begins."""
    todos: NotRequired[list[TodoData]]
    """The model's list of what is to do."""
    attached_clients: NotRequired[int]
    """The number of clients that show it."""
    is_busy: NotRequired[bool]
    """Whether a run of it is running, parked or waiting."""
    pinned_at: NotRequired[int]
    """When it was pinned."""
    archived_at: NotRequired[int]
    """When it was archived."""
    forked_from: NotRequired[str]
    """The session whose messages it began with."""


class ForkData(TypedDict):
    """A new session that begins with copies of another one's messages."""

    session_id: str
    """The new session."""
    source_session_id: str
    """The session with the originals."""
    message_id: str
    """The newest copy; empty if there is none."""
    messages: list[list[str]]
    """For each copied message the id of the original and that of the copy."""


class BudgetData(TypedDict):
    """The limits of a run together with its child runs; a limit that is absent is not set."""

    cost: NotRequired[float]
    """The most money, in US dollars as the prices of models."""
    tokens: NotRequired[int]
    """The most tokens, of prompts and completions."""
    steps: NotRequired[int]
    """The most requests to a model."""
    seconds: NotRequired[int]
    """The longest time since the run began, waiting for answers included."""


class SpentData(TypedDict):
    """What a run and its child runs have used."""

    cost: float
    """The money, in US dollars as the prices of models."""
    tokens: int
    """The tokens of prompts and completions."""
    steps: int
    """The requests to a model."""
    seconds: int
    """The time since the run began."""


class OverBudgetData(TypedDict):
    """Why a run ended as `over_budget`."""

    limits: BudgetData
    """The budget."""
    reached: SpentData
    """The amounts that were reached."""
    exceeded: list[Literal["cost", "tokens", "steps", "seconds"]]
    """The limits that were reached."""


class RunOptionsData(TypedDict):
    """What a prompt chooses for its own run; an option that is absent was not chosen."""

    model: NotRequired[str]
    """`large`, `small`, or `PROVIDER/MODEL`."""
    effort: NotRequired[str]
    """One of the model's reasoning levels."""
    permission_mode: NotRequired[str]
    """The permission mode instead of the workspace's."""
    budget: NotRequired[BudgetData]
    """The limits after which the run ends."""


class QueuePlaceData(TypedDict):
    """The place of a prompt in the queue."""

    key: int
    """The run's key."""
    accept_number: int
    """Its new place."""


class RunData(TypedDict):
    """A piece of accepted work, which ends exactly once."""

    key: int
    """The run's number, unique in the server."""
    session_id: str
    """Its session."""
    accept_number: int
    """Its place among the runs that the session accepted."""
    run_id: NotRequired[str]
    """The id that the client gave it."""
    kind: NotRequired[Literal["summary", "agent", "fetch", "fleet"]]
    """What it is, if not a prompt: a summary, or a delegation to a sub-agent."""
    author: NotRequired[AuthorData]
    """Who sent the prompt. A delegation's is that of the run that waits for it."""
    strategy: NotRequired[str]
    """How the prompt was sent to a busy session, if not as `enqueue`: `steer`, `interrupt`, `rollback` or `reject`."""
    options: NotRequired[RunOptionsData]
    """What the prompt chose for its run."""
    replaces: NotRequired[int]
    """The key of the run that the prompt has ended."""
    rewind_id: NotRequired[str]
    """The rewind by which a rollback undid that run."""
    retry_of: NotRequired[int]
    """The key of the run that it repeats."""
    prompt: NotRequired[str]
    """In `run.accepted` and `run.updated`: the first 2,000 characters of its prompt."""
    state: NotRequired[Literal["accepted", "running", "parked", "ready", "finished"]]
    """In `run.updated`: where it stands."""
    message_id: NotRequired[str]
    """Its last reply."""
    folded_into: NotRequired[int]
    """In `run.folded`: the key of the run that has taken its prompt."""
    outcome: NotRequired[Literal["completed", "cancelled", "failed", "interrupted", "over_budget"]]
    """In `run.finished`: how it ended."""
    budget: NotRequired[OverBudgetData]
    """In `run.finished`: which limits it reached, if it ended as `over_budget`."""
    error: NotRequired[str]
    """In `run.finished`: why it failed; empty if it did not."""
    session_title: NotRequired[str]
    """In `run.finished`: the title of its session."""
    cancelled_by: NotRequired[AuthorData]
    """In `run.finished`: who cancelled it."""


class FileData(TypedDict):
    """The content of a file before or after a session changed it."""

    id: str
    """The version's id."""
    session_id: str
    """The session that changed the file."""
    path: str
    """The file."""
    version: int
    """The number of the version in this session; 0 is the content before the first change."""
    content: str
    """The whole content."""
    is_absent: NotRequired[bool]
    """True if there was no file."""
    created_at: int
    """When it was stored."""
    updated_at: int
    """The same as `created_at`."""


class RestoredFileData(TypedDict):
    """What a rewind, or its undoing, did to a file."""

    path: str
    """The file."""
    result: Literal["restored", "deleted", "left"]
    """What happened to it."""
    reason: str
    """Why it was left alone, for instance because it has changed since; empty if it was not."""


class RewindData(TypedDict):
    """The removal of a session's newest messages, which can be undone."""

    id: str
    """The rewind's id."""
    session_id: str
    """Its session."""
    state: Literal["applying", "done", "undoing", "undone"]
    """How far it is, or its undoing."""
    message_id: str
    """The newest message that stays; empty if none does."""
    message_ids: NotRequired[list[str]]
    """In events: the messages that it removed, or that are back."""
    with_files: bool
    """Whether files were restored, too."""
    files: list[RestoredFileData]
    """What it did to each file."""
    undone_files: list[RestoredFileData]
    """What its undoing did to each file."""
    author: AuthorData | None
    """Who rewound the session."""
    undone_by: AuthorData | None
    """Who undid the rewind."""
    created_at: int
    """When the session was rewound."""


class McpServerData(TypedDict):
    """The state of an MCP server, with the change that the event reports."""

    type: Literal[
        "state_changed", "tools_list_changed", "prompts_list_changed", "resources_list_changed"
    ]
    """What has changed."""
    name: str
    """The server's name in the configuration."""
    state: Literal["disabled", "starting", "connected", "error", "needs auth"]
    """Its state."""
    error: NotRequired[str]
    """Why it does not work."""
    tool_count: NotRequired[int]
    """The number of its tools."""
    prompt_count: NotRequired[int]
    """The number of its prompts."""
    resource_count: NotRequired[int]
    """The number of its resources."""


class JobData(TypedDict):
    """A background command of a model that has ended."""

    id: str
    """The job's id."""
    session_id: str
    """The session that started it."""
    command: str
    """The command."""
    description: str
    """What it was for, by the model; it may be empty."""
    working_dir: str
    """The folder in which it ran."""
    state: Literal["ended", "killed", "lost"]
    """`lost` if it ended with its server: its outcome is unknown."""
    exit_code: int | None
    """The exit code; `null` of a lost job."""
    started_at: int
    """When it was started."""
    ended_at: int
    """When it ended."""


class LanguageServerData(TypedDict):
    """The state of a language server, with the change that the event reports."""

    type: Literal["state_changed", "diagnostics_changed"]
    """What has changed."""
    name: str
    """The server's name."""
    state: Literal[0, 1, 2, 3, 4, 5]
    """0 unstarted, 1 starting, 2 ready, 3 error, 4 stopped, 5 disabled."""
    error: NotRequired[str]
    """Why it does not work."""
    diagnostic_count: NotRequired[int]
    """The number of its diagnostics."""


class SkillStateData(TypedDict):
    """A skill that was found, and whether it can be used."""

    name: str
    """The skill's name."""
    path: str
    """Its file."""
    state: Literal[0, 1]
    """0 usable, 1 invalid."""
    error: NotRequired[str]
    """Why it is invalid."""
