"""What a running child asks of a person: relayed side by side, each answered once.

An answer that cannot be had is a no. Knows the connection only to send answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from agents.fleet.parent.connection import ChildConnection
from agents.fleet.parent.errors import FleetError
from agents.fleet.parent.outcome import Listener
from agents.fleet.wire import ApprovalReply

logger = logging.getLogger(__name__)

MOST_QUESTIONS = 64  # at once; more are refused unasked


class ForwardedQuestions:
    """``on_change`` hears +1 and -1 as questions come and go."""

    def __init__(
        self, listener: Listener, connection: ChildConnection, *, on_change: Callable[[int], None]
    ) -> None:
        self._listener = listener
        self._connection = connection
        self._on_change = on_change
        self._open: dict[str, asyncio.Task[None]] = {}

    def ask(self, request_id: str, body: object, *, is_welcome: bool) -> None:
        """Returns at once. A second question of the same id is ignored."""
        if request_id in self._open:
            return
        relayed = is_welcome and len(self._open) < MOST_QUESTIONS
        task = asyncio.create_task(self._answer(request_id, body, is_relayed=relayed))
        self._open[request_id] = task
        self._on_change(+1)
        task.add_done_callback(lambda _: self._closed(request_id))

    def silence(self) -> None:
        """Nobody is asked any longer."""
        for task in self._open.values():
            task.cancel()

    async def drop(self) -> None:
        """As ``silence``, and waits until the listener has let go."""
        left = list(self._open.values())
        self.silence()
        await asyncio.gather(*left, return_exceptions=True)

    def _closed(self, request_id: str) -> None:
        del self._open[request_id]
        self._on_change(-1)

    async def _answer(self, request_id: str, body: object, *, is_relayed: bool) -> None:
        approved = False
        try:
            if is_relayed:
                approved = await self._listener.on_approval(request_id, body) is True
        except Exception:
            logger.exception("a sub-agent's question could not be answered; the answer is no")
        with contextlib.suppress(FleetError):  # a lost connection is the reader's to tell
            await self._connection.send(ApprovalReply(request_id, approved))
