"""Messages and their parts in native events, as types with a description of every field.

Pure. See ``objects`` for the conventions.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class AuthorData(TypedDict):
    """Who did something."""

    kind: Literal["anonymous", "owner", "user", "token", "policy"]
    """How the server identified the person or program; `policy` for the workspace's own policy."""
    name: str
    """The name to show."""
    user_id: str | None
    """The user's id; null for the owner before the first start of the server has stored one."""
    via: NotRequired[str]
    """In answers: the kind of client, for instance `v1`, `socket`, `rest`, `admin` or `command`."""


class TextContent(TypedDict):
    """Text of a message."""

    text: NotRequired[str]
    """The text. Absent in a finished message on a live stream, where deltas have sent it."""
    length: NotRequired[int]
    """In place of `text`: its number of characters (Unicode code points)."""


class ReasoningContent(TypedDict):
    """The model's reasoning before its reply."""

    thinking: NotRequired[str]
    """The text. Absent in a finished message on a live stream, where deltas have sent it."""
    length: NotRequired[int]
    """In place of `thinking`: its number of characters (Unicode code points)."""
    signature: str
    """A value that the provider wants back with the text; it may be empty."""
    started_at: NotRequired[int]
    """When the reasoning began."""
    finished_at: NotRequired[int]
    """When it ended."""


class ImageContent(TypedDict):
    """An image by its address."""

    url: str
    """The address."""
    detail: NotRequired[str]
    """How exactly the model looks at it."""


class BinaryContent(TypedDict):
    """An attached file."""

    Path: str
    """The file's path or name, as the client gave it."""
    MIMEType: str
    """The file's media type."""
    Data: str
    """The content, in base64."""


class ToolCallContent(TypedDict):
    """The model's use of a tool."""

    id: str
    """The call's id; its result repeats it."""
    name: str
    """The tool's name."""
    input: NotRequired[str]
    """The arguments, a JSON document by the model, which may be malformed. Absent where deltas have sent it."""
    length: NotRequired[int]
    """In place of `input`: its number of characters (Unicode code points)."""
    finished: NotRequired[bool]
    """Whether the model has written the arguments to their end."""


class ToolResultContent(TypedDict):
    """What the model gets for a tool call."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name."""
    content: str
    """The text for the model."""
    metadata: str
    """A JSON document for clients, which the model does not get; it may be empty."""
    is_error: bool
    """Whether the call failed."""
    data: NotRequired[str]
    """An image or another file of the result, in base64."""
    mime_type: NotRequired[str]
    """The media type of `data`."""


class FinishContent(TypedDict):
    """How a message ended; the last part of every finished message."""

    reason: Literal[
        "end_turn",
        "max_tokens",
        "tool_use",
        "canceled",
        "error",
        "content_filter",
        "unknown",
        "stop",
    ]
    """The reason; `stop` for messages of users and tools."""
    time: int
    """When it ended; 0 if that was not stored."""
    message: NotRequired[str]
    """What went wrong, in a few words."""
    details: NotRequired[str]
    """The rest of what went wrong."""


class ShellCommandContent(TypedDict):
    """A user's own shell command."""

    command: str
    """The command."""
    output: str
    """What it has printed."""
    exit_code: int
    """The exit code."""


class TextPart(TypedDict):
    """A part with text."""

    type: Literal["text"]
    """The part's type."""
    data: TextContent
    """Its content."""


class ReasoningPart(TypedDict):
    """A part with reasoning."""

    type: Literal["reasoning"]
    """The part's type."""
    data: ReasoningContent
    """Its content."""


class ImagePart(TypedDict):
    """A part with an image's address."""

    type: Literal["image_url"]
    """The part's type."""
    data: ImageContent
    """Its content."""


class BinaryPart(TypedDict):
    """A part with an attached file."""

    type: Literal["binary"]
    """The part's type."""
    data: BinaryContent
    """Its content."""


class ToolCallPart(TypedDict):
    """A part with a tool call."""

    type: Literal["tool_call"]
    """The part's type."""
    data: ToolCallContent
    """Its content."""


class ToolResultPart(TypedDict):
    """A part with a tool's result."""

    type: Literal["tool_result"]
    """The part's type."""
    data: ToolResultContent
    """Its content."""


class FinishPart(TypedDict):
    """A part with a message's end."""

    type: Literal["finish"]
    """The part's type."""
    data: FinishContent
    """Its content."""


class ShellCommandPart(TypedDict):
    """A part with a user's command."""

    type: Literal["shell_command"]
    """The part's type."""
    data: ShellCommandContent
    """Its content."""


class MessageData(TypedDict):
    """An entry of a session."""

    id: str
    """The message's id."""
    session_id: str
    """Its session."""
    role: Literal["user", "assistant", "tool", "system"]
    """Who wrote it."""
    parts: list[
        TextPart
        | ReasoningPart
        | ImagePart
        | BinaryPart
        | ToolCallPart
        | ToolResultPart
        | FinishPart
        | ShellCommandPart
    ]
    """Its content in order."""
    model: str
    """The model that wrote it; empty for users and tools."""
    provider: str
    """The model's provider; empty for users and tools."""
    created_at: int
    """When it was created."""
    updated_at: int
    """When it last changed."""
    is_summary_message: NotRequired[bool]
    """True for a summary, which replaces the conversation before it."""
    author: NotRequired[AuthorData]
    """Who sent it; only of users' messages, and absent where that is not known."""


class RetryData(TypedDict):
    """A failed attempt to get a reply, and the next one."""

    attempt: int
    """The number of the next attempt."""
    attempts: int
    """The most attempts."""
    delay_seconds: float
    """The pause before the next attempt."""
    reason: str
    """Why the last attempt failed."""
