"""The requests and events of model calls, and the protocol of a provider's wire.

A wire is one HTTP dialect (OpenAI chat completions, Anthropic messages, …).
It translates a ``ModelRequest`` and yields the model's events, one *batch* for
each read from the network, so that a burst of text costs one wake-up. It never
retries and never sleeps: ``agents.llm.retries`` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from agents.config.settings import ModelInfo
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import FinishReason

IDLE_SECONDS = 120.0  # after this time without a byte, a wire ends its request


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool's declaration for the model."""

    name: str
    description: str
    schema: Mapping[str, Any]  # JSON schema (an object) of its arguments


@dataclass(frozen=True, slots=True)
class ModelRequest:
    model: ModelInfo
    system: str
    messages: tuple[TurnMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 8_192
    temperature: float | None = None
    top_p: float | None = None
    think: bool = False
    reasoning_effort: str = ""
    session_id: str = ""  # the key of the prompt cache at some providers
    working_dir: str = ""  # only the offline model uses it
    # The caller passes the same one in every request of a conversation, for ``encode_cache``.
    memo: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningSigned:
    signature: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    id: str  # unique in its reply; the wire generates one if the provider sends none
    name: str


@dataclass(frozen=True, slots=True)
class ToolInputDelta:
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallFinished:
    id: str


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one reply. ``input`` excludes tokens from the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class Stopped:
    """The regular end of a reply: always the last event, exactly once."""

    reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    # The model that has replied, as the provider names it; empty if it does not.
    model: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Restarted:
    """The reply starts again, and its parts so far are void. Only the retries send it."""

    attempt: int
    reason: str
    delay_seconds: float


ModelEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ReasoningSigned
    | ToolCallStarted
    | ToolInputDelta
    | ToolCallFinished
    | Stopped
    | Restarted
)


class Provider(Protocol):
    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        """Makes one attempt. Ends with ``Stopped`` or raises ``agents.llm.errors.ModelError``.

        Closing the iterator (``aclose``, or cancelling its task) closes the
        connection at once.
        """
        ...
