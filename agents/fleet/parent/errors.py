"""The errors between a parent and its child, each with a stable code and a sentence."""

from __future__ import annotations

from typing import ClassVar


class FleetError(Exception):
    """A sub-agent cannot be used. ``default`` is the sentence where nothing more is known."""

    code: ClassVar[str] = "fleet_error"
    default: ClassVar[str] = "The sub-agent cannot be used."

    def __init__(self, sentence: str = "") -> None:
        self.sentence = sentence or self.default
        super().__init__(self.sentence)


class DialFailed(FleetError):
    code = "dial_failed"
    default = "The sub-agent cannot be reached."


class Unauthorized(DialFailed):
    code = "unauthorized"
    default = "The sub-agent refused the token. Check the token of its role in the configuration."


class ChildConnectionLost(FleetError):
    code = "connection_lost"
    default = "The connection to the sub-agent was lost."


class ChildUnresponsive(ChildConnectionLost):
    """The connection is open, but nothing arrives any longer."""

    code = "child_is_deaf"
    default = "The sub-agent no longer answers."


class FrameTooLarge(FleetError):
    code = "frame_too_large"
    default = (
        "The message to the sub-agent is larger than 16 MiB, the most that it accepts."
        " Give it a shorter prompt."
    )


class SpawnFailed(FleetError):
    code = "spawn_failed"
    default = "The sub-agent's process ended before it could be reached."


class SpawnTimedOut(FleetError):
    code = "spawn_timed_out"
    default = "The sub-agent's process could not be reached in time."


class NoSuchChild(FleetError):
    code = "no_such_child"
    default = (
        "No running sub-agent has this role. Start one, or correct the role in the configuration."
    )


class TooManyChildren(FleetError):
    code = "too_many_children"
    default = "Too many sub-agents run in this process. Try again when one of them has ended."
