"""Reaches children that somebody else started: by their records, or at a configured address."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from agents.fleet import records
from agents.fleet.parent.child import Child
from agents.fleet.parent.connection import PING_SECONDS
from agents.fleet.parent.dialling import DIAL_SECONDS, check_endpoint, dial
from agents.fleet.parent.errors import DialFailed, NoSuchChild


@dataclass(frozen=True, slots=True)
class Remote:
    """A configured endpoint."""

    endpoint: str
    token: str | None = field(default=None, repr=False)
    within_seconds: float = DIAL_SECONDS
    ping_seconds: float = PING_SECONDS
    tls: ssl.SSLContext | None = field(default=None, repr=False)


async def reach_remote(remote: Remote, *, role: str = "") -> Child:
    """Raises ``DialFailed``."""
    connection = await dial(
        remote.endpoint,
        token=remote.token,
        within_seconds=remote.within_seconds,
        ping_seconds=remote.ping_seconds,
        tls=remote.tls,
    )
    return Child(remote.endpoint, role, remote.endpoint, connection, is_reusable=True)


async def reach_recorded(
    fabric: Path,
    *,
    agent_id: str | None = None,
    role: str | None = None,
    within_seconds: float = DIAL_SECONDS,
) -> Child:
    """The first living child of that id or role that answers. Raises ``NoSuchChild``.

    One that is busy with another parent may leave the handshake unanswered; then
    the next is tried.
    """
    live = await asyncio.to_thread(records.live_records, fabric)
    for record in live:
        if agent_id is not None and record.agent_id != agent_id:
            continue
        if role is not None and record.role != role:
            continue
        try:
            check_endpoint(record.endpoint, must_be_here=True)
            connection = await dial(record.endpoint, within_seconds=within_seconds)
        except DialFailed:
            continue
        return Child(record.agent_id, record.role, record.endpoint, connection, is_reusable=True)
    raise NoSuchChild
