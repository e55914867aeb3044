"""What every provider wire takes and gives.

A wire is one HTTP dialect (OpenAI chat completions, Anthropic messages, …).
It translates a ``ModelRequest`` and yields what the model says, a *batch* of
events for each read from the network, so that a burst of words costs one
wake-up. It never retries and never sleeps: ``agents.llm.retries`` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from agents.config.settings import ModelInfo
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import FinishReason

SILENCE_SECONDS = 120.0  # without a byte for so long, a wire gives its request up


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told it."""

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
    session_id: str = ""  # some providers keep their prompt cache by it
    working_dir: str = ""  # only the offline model looks at it
    # Kept by who asks from one request to the next of a conversation that grows.
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
    id: str  # unique in its reply; the wire makes one where the provider sends none
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
    """Tokens of one reply. ``input`` does not include the cached ones."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class Stopped:
    """The reply's regular end; always the last event, exactly once."""

    reason: FinishReason
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Restarted:
    """Made by the retries alone: forget this reply's parts, it begins anew."""

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
        """One try. Ends with ``Stopped`` or raises ``agents.llm.errors.ModelError``.

        Closing the iterator (``aclose``, or cancelling its task) closes the
        connection at once.
        """
        ...
