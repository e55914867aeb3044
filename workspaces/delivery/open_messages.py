"""The open messages of one workspace, by the number of the event that began each.

Pure. Follows the log: a message opens with its start and is gone with its end.
One that this very process writes is shared with its producer, not copied.
"""

from __future__ import annotations

from collections.abc import Mapping

from workspaces.delivery.live import LiveMessage
from workspaces.log.transaction import Recorded
from workspaces.log.types import CLOSING, STARTING, Kind


class OpenMessages(dict[int, LiveMessage]):
    """A mapping itself: each word looks its message up here."""

    def __init__(self, producers: Mapping[int, LiveMessage]) -> None:
        super().__init__()
        self._producers = producers  # those that this very process writes

    def begin(self, rows: Mapping[int, LiveMessage]) -> None:
        """As the database has them."""
        self.update({number: self._producers.get(number, row) for number, row in rows.items()})

    def adopt(self, live: LiveMessage) -> None:
        """Shares one that this process has begun to write."""
        if live.number in self:
            self[live.number] = live

    def follow(self, event: Recorded) -> LiveMessage | None:
        """Keeps up with the log; returns the message that has closed with this event."""
        if event.kind in STARTING:
            message = event.payload["message"]
            self._close(message["id"])
            self[event.number] = self._producers.get(event.number) or LiveMessage(
                event.number, message
            )
        elif event.kind in CLOSING:
            return self._close(event.payload["message"]["id"])
        elif event.kind == Kind.SESSION_DELETED:
            session_id = event.payload["session"]["id"]
            for number in [n for n, m in self.items() if m.message["session_id"] == session_id]:
                del self[number]
        return None

    def number_of(self, message_id: str) -> int | None:
        for number, live in self.items():
            if live.message["id"] == message_id:
                return number
        return None

    def _close(self, message_id: str) -> LiveMessage | None:
        number = self.number_of(message_id)
        return None if number is None else self.pop(number)
