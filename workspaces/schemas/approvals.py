"""Permission requests, grants and questions in native events, with a description of every field.

Pure. See ``objects`` for the conventions.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from workspaces.schemas.messages import AuthorData


class AgentStepData(TypedDict):
    """A session on the way from the top session to the one that makes a request."""

    session_id: str
    """The session."""
    title: str
    """Its title."""


class PermissionRequestData(TypedDict):
    """A tool call, or a folder's configuration, that waits for a person."""

    id: str
    """The request's id."""
    session_id: str
    """The call's session; empty for a request about trust."""
    tool_call_id: str
    """The call's id."""
    tool_name: str
    """The tool; `trust` for a request about trust."""
    description: str
    """What it would do, for a person."""
    action: str
    """What kind of act it is, for instance `write` or `execute`."""
    params: dict[str, Any]
    """The details to show; their fields depend on the tool."""
    path: str
    """The file or folder that it concerns."""
    agent_path: NotRequired[list[AgentStepData]]
    """The sessions from the top one to that of the call; absent for a top session's own call."""
    files: NotRequired[list[str]]
    """The files that the call would write, and that `allow_session` covers."""
    dangerous: NotRequired[bool]
    """True if it changes a file that programs obey."""
    always_asks: NotRequired[bool]
    """True if an answer counts only once, whatever its scope."""
    cut_output: NotRequired[str]
    """What the call had printed when its server stopped; with this field, `allow` runs it again."""
    asked_at: NotRequired[int]
    """When it was opened; absent from requests about trust."""
    deny_at: NotRequired[int]
    """When the policy of the workspace denies it."""


class GrantData(TypedDict):
    """An answer that also allows later calls."""

    id: str
    """The grant's id."""
    workspace_id: str
    """Its workspace."""
    scope: Literal["once", "run", "session", "workspace"]
    """How far it reaches."""
    session_id: NotRequired[str]
    """Its session, unless it reaches further."""
    run_key: NotRequired[int]
    """Its run, unless it reaches further."""
    tool_name: str
    """The tool that it allows."""
    action: str
    """The kind of act that it allows."""
    path: str
    """The file or folder for which it allows that."""
    is_folder: bool
    """Whether it covers everything in the folder."""
    author: AuthorData | None
    """Who gave it; null where that is not known."""
    granted_at: int
    """When it was given."""
    expires_at: int | None
    """When it ends; null if it has no such time."""


class ApprovalPolicyData(TypedDict):
    """What happens to requests without an answer."""

    workspace_id: str
    """The workspace."""
    notify_after_seconds: int | None
    """After which time people are notified; null for never."""
    deny_after_seconds: int | None
    """After which time a request is denied; null for never."""
    author: AuthorData | None
    """Who changed it last."""
    changed_at: int | None
    """When it was changed last."""


class ChoiceData(TypedDict):
    """One possible answer to a question."""

    id: str
    """The choice's id, for the answer."""
    label: str
    """Its text."""
    description: NotRequired[str]
    """More about it."""


class QuestionData(TypedDict):
    """A question of the model to the user."""

    id: str
    """The question's id, for the answer."""
    type: Literal["yes_no", "single_choice", "multi_choice", "free_text"]
    """How it is answered."""
    question: str
    """Its text."""
    label: NotRequired[str]
    """One or two words for it."""
    description: NotRequired[str]
    """Facts that help to answer it."""
    choices: NotRequired[list[ChoiceData]]
    """The possible answers of `single_choice` and `multi_choice`."""


class QuestionBatchData(TypedDict):
    """Questions that are answered together."""

    id: str
    """The batch's id."""
    session_id: str
    """Its session."""
    tool_call_id: str
    """The tool call that waits for the answers."""
    questions: list[QuestionData]
    """The questions."""
    confirm_title: NotRequired[str]
    """The title of the page on which several answers are confirmed."""
    confirm_description: NotRequired[str]
    """The text of that page."""
