"""A turn's state: its phase, the calls of its newest reply, and its memory of earlier steps. Pure.

The transitions are in ``machine``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from agents.turn.effects import Effect
from agents.turn.inputs import RequestedCall

# A step whose calls and results occur this often among the last steps is a loop.
LOOP_WINDOW = 10
LOOP_REPEATS = 5

# At least this many between two summaries of a turn: when one summary does not shorten the
# conversation, another one right after it does not either.
REPLIES_BETWEEN_SUMMARIES = 2


class Phase(StrEnum):
    FRESH = "fresh"  # claimed, nothing begun
    CALLING = "calling"  # the model writes a reply
    SUMMARISING = "summarising"  # the model writes the summary
    TOOLS = "tools"  # the calls of the reply are checked, wait for permission, or run
    ENDED = "ended"


class Progress(StrEnum):
    WAITING = "waiting"
    CHECKING = "checking"  # the permission check is under way
    NEEDS_ANSWER = "needs_answer"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Call:
    request: RequestedCall
    progress: Progress = Progress.WAITING
    digest: str = ""  # of its result, for the loop guard


@dataclass(frozen=True, slots=True)
class Turn:
    phase: Phase = Phase.FRESH
    calls: tuple[Call, ...] = ()
    steps: int = 0  # replies so far
    trail: tuple[str, ...] = ()  # a digest for each step with calls, newest last
    is_denied: bool = False
    hands_over: bool = False
    is_full: bool = False  # the conversation nearly fills the window, as last measured
    is_exhausted: bool = False  # the last request did not fit: the next one is its retry
    only_summarises: bool = False
    summary_step: int = -REPLIES_BETWEEN_SUMMARIES  # the number of replies at the last summary


Step: TypeAlias = tuple[Turn, tuple[Effect, ...]]


def ended(turn: Turn) -> Turn:
    return replace(turn, phase=Phase.ENDED)


def call_of(turn: Turn, call_id: str) -> Call | None:
    return next((call for call in turn.calls if call.request.id == call_id), None)


def with_progress(turn: Turn, call_id: str, progress: Progress, digest: str = "") -> Turn:
    calls = tuple(
        replace(call, progress=progress, digest=digest) if call.request.id == call_id else call
        for call in turn.calls
    )
    return replace(turn, calls=calls)


def digest_of(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def trace_of(calls: Sequence[Call]) -> str:
    """Returns a digest of a step, equal for the same calls with the same results."""
    return digest_of(
        "\x00".join(f"{c.request.name}\x01{c.request.input}\x01{c.digest}" for c in calls)
    )
