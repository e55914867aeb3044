"""Nudges over the channel layer: they carry no work and may be lost.

Workers also look by themselves, so a lost nudge costs a moment. A process that
holds a worker itself is told directly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from channels.layers import InMemoryChannelLayer, get_channel_layer

logger = logging.getLogger(__name__)

CHANNEL = "runs"  # one of the workers takes it
GROUP = "workers"  # every worker process hears it

_local: list[Callable[[dict[str, Any]], None]] = []


def listen_here(listener: Callable[[dict[str, Any]], None]) -> None:
    """This process's worker hears nudges without the layer."""
    _local.append(listener)


def stop_listening_here(listener: Callable[[dict[str, Any]], None]) -> None:
    if listener in _local:
        _local.remove(listener)


async def nudge_accepted() -> None:
    """A run can be claimed."""
    await _send({"type": "run.accepted"})


async def nudge_cancelled(session_id: str, *, up_to: int) -> None:
    """The session's runs up to this accept number are cancelled."""
    await _send({"type": "run.cancelled", "session_id": session_id, "up_to": up_to})


async def _send(message: dict[str, Any]) -> None:
    for listener in _local:
        listener(message)
    layer = get_channel_layer()
    if layer is None or (isinstance(layer, InMemoryChannelLayer) and _local):
        return
    try:
        await layer.group_send(GROUP, message)
    except Exception as error:  # noqa: BLE001  workers look by themselves
        logger.warning("a nudge was lost: %s", error)
