"""A turn's state: where it stands, the calls of its newest reply, what it remembers. Pure.

It says what a turn is and not what follows: that is the machine's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from agents.turn.effects import Effect
from agents.turn.inputs import Asked

# The same calls with the same results so often among the last steps are a loop.
LOOP_WINDOW = 10
LOOP_REPEATS = 5

# Between two summaries of a turn: where a summary does not shorten, more of them do not either.
REPLIES_BETWEEN_SUMMARIES = 2


class Phase(StrEnum):
    FRESH = "fresh"  # claimed, nothing begun
    CALLING = "calling"  # the model speaks
    SUMMARISING = "summarising"  # the model writes the summary
    TOOLS = "tools"  # its calls are judged, asked for, run
    ENDED = "ended"


class Progress(StrEnum):
    WAITING = "waiting"
    JUDGED = "judged"  # being judged
    ASKED = "asked"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Call:
    asked: Asked
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
    is_full: bool = False  # as last measured, it nearly fills the model's window
    is_exhausted: bool = False  # the last call did not fit: the next one is its retry
    only_summarises: bool = False
    summary_step: int = -REPLIES_BETWEEN_SUMMARIES  # how many replies there were at the last one


Step: TypeAlias = tuple[Turn, tuple[Effect, ...]]


def ended(turn: Turn) -> Turn:
    return replace(turn, phase=Phase.ENDED)


def call_of(turn: Turn, call_id: str) -> Call | None:
    return next((call for call in turn.calls if call.asked.id == call_id), None)


def with_progress(turn: Turn, call_id: str, progress: Progress, digest: str = "") -> Turn:
    calls = tuple(
        replace(call, progress=progress, digest=digest) if call.asked.id == call_id else call
        for call in turn.calls
    )
    return replace(turn, calls=calls)


def digest_of(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def trace_of(calls: Sequence[Call]) -> str:
    """A digest of a whole step: the same calls with the same results have the same."""
    return digest_of("\x00".join(f"{c.asked.name}\x01{c.asked.input}\x01{c.digest}" for c in calls))
