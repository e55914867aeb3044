"""The states of rows and the outcomes of runs: the strings of databases and events. Pure.

Statements contain these as literals (``in_sql``): a partial index serves only a statement whose
condition the database can compare with that of the index.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Any


class RunState(StrEnum):
    """The states in the order of a run's life. ``agents/runs/transitions.py`` changes them."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    PARKED = "parked"
    READY = "ready"
    FINISHED = "finished"


CLAIMABLE = (RunState.ACCEPTED, RunState.READY)
# The run that a session is at; the accepted ones wait behind it.
IN_PROGRESS = (RunState.RUNNING, RunState.PARKED, RunState.READY)
# Work that continues without a person's answer.
ACTIVE = (RunState.ACCEPTED, RunState.RUNNING, RunState.READY)


class RunOutcome(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    FOLDED = "folded"
    OVER_BUDGET = "over_budget"


class BoardState(StrEnum):
    """What a session is doing, from its runs and from the requests that are open."""

    WORKING = "working"
    WAITING = "waiting"  # a person must answer
    QUEUED = "queued"  # accepted, and no worker has begun
    FAILED = "failed"
    OVER_BUDGET = "over_budget"
    INTERRUPTED = "interrupted"
    DONE = "done"
    IDLE = "idle"  # no run, or the newest one was cancelled


class Strategy(StrEnum):
    """What a prompt does with a busy session."""

    ENQUEUE = "enqueue"  # waits for its turn
    STEER = "steer"  # joins the running turn at its next step
    INTERRUPT = "interrupt"  # ends the running turn, keeps its messages, and runs next
    ROLLBACK = "rollback"  # ends it, undoes its messages and files, and runs next
    REJECT = "reject"  # is not accepted


class Priority(StrEnum):
    """Which prompts begin first, when more runs wait than there are places."""

    INTERACTIVE = "interactive"  # a person or a program waits for it
    SCHEDULED = "scheduled"  # a timer sent it: it comes after the others, until it has waited long


class JobState(StrEnum):
    RUNNING = "running"
    ENDED = "ended"
    KILLED = "killed"
    LOST = "lost"


# A killed job's process may still run, until its exit code is stored.
UNENDED_JOB = (JobState.RUNNING, JobState.KILLED)


class CutRule(StrEnum):
    """What follows when a tool that may have had effects was cut (``permissions.cut_calls``)."""

    REPORT = "report"  # the model gets its output so far, and decides
    ASK = "ask"  # a person decides whether it runs again
    INTERRUPT = "interrupt"  # the run ends as interrupted


class StepKind(StrEnum):
    """What a part of a run was."""

    REPLY = "reply"
    SUMMARY = "summary"
    CALL = "call"  # of a tool


class SubAgentState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    ENDED = "ended"


class LanguageServerState(IntEnum):
    """The states of a language server, with the numbers that clients get."""

    UNSTARTED = 0
    STARTING = 1
    READY = 2
    ERROR = 3
    STOPPED = 4
    DISABLED = 5


def in_sql(states: Iterable[str]) -> str:
    """Returns the states as the list of an ``IN``."""
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"


class Answer(StrEnum):
    """Of a person to a permission request."""

    ALLOW = "allow"
    ALLOW_SESSION = "allow_session"  # as ``ALLOW`` with the session as its scope
    DENY = "deny"


def choices_of(states: type[StrEnum] | type[IntEnum], **shown: str) -> list[tuple[Any, str]]:
    """Returns a field's choices: each state as it is stored, and as the admin shows it."""
    return [(state.value, shown.get(str(state), state.name.capitalize())) for state in states]
