"""What can go wrong between a parent and its child, each with a stable code and a sentence."""

from __future__ import annotations


class FleetError(Exception):
    """The child could not be used."""

    code = "fleet_error"

    def __init__(self, sentence: str | None = None) -> None:
        self.sentence = sentence or (self.__doc__ or "").strip()
        super().__init__(self.sentence)


class DialFailed(FleetError):
    """The child could not be reached."""

    code = "dial_failed"


class Unauthorized(DialFailed):
    """The child refused the token."""

    code = "unauthorized"


class ChildConnectionLost(FleetError):
    """The connection to the child was lost."""

    code = "connection_lost"


class ChildIsDeaf(ChildConnectionLost):
    """The child does not answer any more."""

    code = "child_is_deaf"


class FrameTooLarge(FleetError):
    """A message to the child is larger than the 16 MiB it would take."""

    code = "frame_too_large"


class SpawnFailed(FleetError):
    """The child's process ended before it could be reached."""

    code = "spawn_failed"


class SpawnTimedOut(FleetError):
    """The child's process did not become reachable in time."""

    code = "spawn_timed_out"


class NoSuchChild(FleetError):
    """No living child of that description is known."""

    code = "no_such_child"


class TooManyChildren(FleetError):
    """No more children may run here at once."""

    code = "too_many_children"
