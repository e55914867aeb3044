"""Wakes workers by nudges, which carry no work and may be lost.

Workers also look by themselves, so a lost nudge costs a moment. There are two ways: a worker in the
same process is called directly, and others get the message over the channel layer. Nobody waits for
the layer: a nudge is sent in the background, and dropped after a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from channels.layers import InMemoryChannelLayer, get_channel_layer

from agents.runs.rows import Claimed
from workspaces.log.log_throttle import LogThrottle

logger = logging.getLogger(__name__)

CHANNEL = "runs"  # one of the workers takes it
GROUP = "workers"  # every worker process gets these
NUDGE_SECONDS = 1.0

Message = dict[str, Any]

_throttle = LogThrottle()


class WakeWorkers(Protocol):
    """One way to wake workers. It never raises, and a message may be lost."""

    def wake(self, key: str, message: Message, /) -> None:
        """Passes the message on and returns at once, in the event loop.

        Messages of one key may be merged into the newest.
        """

    async def wake_now(self, message: Message) -> None:
        """Returns when the message is passed on or lost, for a short-lived event loop."""


class WakeHere:
    """Calls the workers of this process."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Message], None]] = []

    def wake(self, _key: str, message: Message, /) -> None:
        for listener in self.listeners:
            listener(message)

    async def wake_now(self, message: Message) -> None:
        self.wake("", message)


class WakeOverLayer:
    """Sends to the workers of other processes over the channel layer, if they share one."""

    def __init__(self, here: WakeHere) -> None:
        self._here = here
        self._senders: WeakKeyDictionary[asyncio.AbstractEventLoop, _Sender] = WeakKeyDictionary()

    def wake(self, key: str, message: Message, /) -> None:
        if self._layer() is None:
            return
        loop = asyncio.get_running_loop()
        sender = self._senders.get(loop)
        if sender is None:
            sender = self._senders[loop] = _Sender(self.wake_now)
        sender.put(key, message)

    async def wake_now(self, message: Message) -> None:
        layer = self._layer()
        if layer is None:
            return
        try:
            async with asyncio.timeout(NUDGE_SECONDS):
                await layer.group_send(GROUP, message)
        except Exception as error:  # noqa: BLE001  workers also poll
            if _throttle.admit("lost") is not None:
                reason = str(error) or f"no answer within {NUDGE_SECONDS:g} s"
                logger.warning("a nudge was lost: %s", reason)

    def _layer(self) -> Any:
        """Returns the layer, or ``None`` if it reaches only the worker of this process."""
        layer = get_channel_layer()
        is_here = isinstance(layer, InMemoryChannelLayer) and self._here.listeners
        return None if is_here else layer


class _Sender:
    """Sends nudges in the background of one event loop.

    While a send is under way, only the newest message of each key waits: one nudge is enough.
    """

    def __init__(self, send: Callable[[Message], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: dict[str, Message] = {}
        self._task: asyncio.Task[None] | None = None

    def put(self, key: str, message: Message) -> None:
        self._waiting[key] = message
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_all(), name="nudges")

    async def _send_all(self) -> None:
        while self._waiting:
            messages = list(self._waiting.values())
            self._waiting.clear()
            await asyncio.gather(*(self._send(message) for message in messages))


_here = WakeHere()
_WAYS: tuple[WakeWorkers, ...] = (_here, WakeOverLayer(_here))


def listen_here(listener: Callable[[Message], None]) -> None:
    """Registers this process's worker for nudges, which it then gets without the layer."""
    _here.listeners.append(listener)


def stop_listening_here(listener: Callable[[Message], None]) -> None:
    if listener in _here.listeners:
        _here.listeners.remove(listener)


async def nudge_accepted() -> None:
    """Nudges a worker because a run can be claimed. Returns at once."""
    _wake("", {"type": "run.accepted"})


async def nudge_cancelled(session_id: str, *, up_to: int) -> None:
    """Nudges workers to cancel the session's runs up to this accept number. Returns at once."""
    _wake(session_id, _cancelled(session_id, up_to))


async def nudge_withdrawn(keys: Sequence[int]) -> None:
    """Nudges workers to cancel these runs, whose client has retired. Returns at once."""
    _wake(f"runs {keys}", {"type": "run.cancelled", "keys": list(keys)})


async def send_cancelled(session_id: str, *, up_to: int) -> None:
    """Nudges like ``nudge_cancelled`` and waits until it is sent, for a short-lived event loop."""
    message = _cancelled(session_id, up_to)
    for way in _WAYS:
        await way.wake_now(message)


def is_meant(claimed: Claimed, message: Mapping[str, Any]) -> bool:
    """Whether this nudge cancels the run: by its key, or up to a number of its session."""
    if "keys" in message:
        return claimed.key in message["keys"]
    is_there: bool = claimed.session_id == message["session_id"]
    return is_there and claimed.accept_number <= message["up_to"]


def _cancelled(session_id: str, up_to: int) -> Message:
    return {"type": "run.cancelled", "session_id": session_id, "up_to": up_to}


def _wake(key: str, message: Message) -> None:
    for way in _WAYS:
        way.wake(key, message)
