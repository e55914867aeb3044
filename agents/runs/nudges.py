"""Nudges over the channel layer: they carry no work and may be lost.

Workers also look by themselves, so a lost nudge costs a moment. A worker in the same process is
notified directly. Nobody waits for the layer: a nudge is sent in the background, and dropped after
a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from channels.layers import InMemoryChannelLayer, get_channel_layer

from workspaces.log.log_throttle import LogThrottle

logger = logging.getLogger(__name__)

CHANNEL = "runs"  # one of the workers takes it
GROUP = "workers"  # every worker process gets these
NUDGE_SECONDS = 1.0

Message = dict[str, Any]

_local: list[Callable[[Message], None]] = []
_throttle = LogThrottle()


def listen_here(listener: Callable[[Message], None]) -> None:
    """Registers this process's worker for nudges, which it then gets without the layer."""
    _local.append(listener)


def stop_listening_here(listener: Callable[[Message], None]) -> None:
    if listener in _local:
        _local.remove(listener)


async def nudge_accepted() -> None:
    """Nudges a worker because a run can be claimed. Returns at once."""
    _nudge("", {"type": "run.accepted"})


async def nudge_cancelled(session_id: str, *, up_to: int) -> None:
    """Nudges workers to cancel the session's runs up to this accept number. Returns at once."""
    _nudge(session_id, _cancelled(session_id, up_to))


async def nudge_withdrawn(keys: Sequence[int]) -> None:
    """Nudges workers to cancel these runs, whose client has retired. Returns at once."""
    _nudge(f"runs {keys}", {"type": "run.cancelled", "keys": list(keys)})


async def send_cancelled(session_id: str, *, up_to: int) -> None:
    """Nudges like ``nudge_cancelled`` and waits until it is sent, for a short-lived event loop."""
    message = _cancelled(session_id, up_to)
    for listener in _local:
        listener(message)
    await _send(message)


def _cancelled(session_id: str, up_to: int) -> Message:
    return {"type": "run.cancelled", "session_id": session_id, "up_to": up_to}


def _nudge(key: str, message: Message) -> None:
    for listener in _local:
        listener(message)
    if _layer() is None:
        return
    loop = asyncio.get_running_loop()
    sender = _senders.get(loop)
    if sender is None:
        sender = _senders[loop] = _Sender()
    sender.put(key, message)


class _Sender:
    """Sends nudges in the background of one event loop.

    While a send is under way, only the newest message of each key waits: one nudge is enough.
    """

    def __init__(self) -> None:
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
            await asyncio.gather(*(_send(message) for message in messages))


_senders: WeakKeyDictionary[asyncio.AbstractEventLoop, _Sender] = WeakKeyDictionary()


def _layer() -> Any:
    """Returns the layer, or ``None`` if it reaches only the worker of this process."""
    layer = get_channel_layer()
    return None if isinstance(layer, InMemoryChannelLayer) and _local else layer


async def _send(message: Message) -> None:
    layer = _layer()
    if layer is None:
        return
    try:
        async with asyncio.timeout(NUDGE_SECONDS):
            await layer.group_send(GROUP, message)
    except Exception as error:  # noqa: BLE001  workers also poll
        if _throttle.admit("lost") is not None:
            reason = str(error) or f"no answer within {NUDGE_SECONDS:g} s"
            logger.warning("a nudge was lost: %s", reason)
