"""Starts a child on this machine and waits until it can be reached.

Fixed arguments, the provisioning document on standard input, then the fabric
folder is watched for the child's record. Whatever fails on the way, no process
and no record is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agents.fleet import records
from agents.fleet.parent.child import RunningChild
from agents.fleet.parent.connection import DIAL_SECONDS, PING_SECONDS, check_endpoint, dial
from agents.fleet.parent.errors import (
    DialFailed,
    FleetError,
    NoSuchChild,
    SpawnFailed,
    SpawnTimedOut,
)
from agents.fleet.parent.process import ChildProcess
from agents.fleet.provisioning import ProvisionSpec, write_spec
from agents.fleet.records import Record


@dataclass(frozen=True, slots=True)
class Remote:
    """A configured endpoint."""

    endpoint: str
    token: str | None = field(default=None, repr=False)
    within_seconds: float = DIAL_SECONDS
    ping_seconds: float = PING_SECONDS
    tls: ssl.SSLContext | None = field(default=None, repr=False)


async def reach_remote(remote: Remote, *, role: str = "") -> RunningChild:
    """Raises ``DialFailed``."""
    connection = await dial(
        remote.endpoint,
        token=remote.token,
        within_seconds=remote.within_seconds,
        ping_seconds=remote.ping_seconds,
        tls=remote.tls,
    )
    return RunningChild(remote.endpoint, role, remote.endpoint, connection, is_reusable=True)


async def reach_recorded(
    fabric: Path,
    *,
    agent_id: str | None = None,
    role: str | None = None,
    within_seconds: float = DIAL_SECONDS,
) -> RunningChild:
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
        return RunningChild(
            record.agent_id, record.role, record.endpoint, connection, is_reusable=True
        )
    raise NoSuchChild


POLL_SECONDS: Final = 0.02
_LAST_WORDS = 2000
_PROGRAM = Path(__file__).resolve().parents[3] / "crushsite" / "__main__.py"


def own_command() -> tuple[str, ...]:
    """Our own worker."""
    return (sys.executable, str(_PROGRAM), "runchild")


@dataclass(frozen=True, slots=True)
class Launch:
    """How processes are started. Nothing here may be secret."""

    command: tuple[str, ...] = field(default_factory=own_command)
    environment: Mapping[str, str] = field(default_factory=dict)  # beside the chosen few
    within_seconds: float = 30.0
    ping_seconds: float = PING_SECONDS


async def spawn_child(spec: ProvisionSpec, launch: Launch | None = None) -> RunningChild:
    """Raises ``FleetError`` and ``BadSpec``."""
    how = launch or Launch()
    document = write_spec(spec)
    fabric = Path(spec.fabric_dir)
    child_id = spec.identity.child_id
    await asyncio.to_thread(_clear, fabric, child_id)
    workspace = Path(spec.workspace) if spec.workspace else None
    process = await ChildProcess.start(how.command, folder=workspace, environment=how.environment)
    try:
        async with asyncio.timeout(how.within_seconds):
            telling = asyncio.create_task(process.tell(document))
            try:
                record = await _awaited(process, fabric, child_id)
            finally:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)
            check_endpoint(record.endpoint, must_be_here=True)
            connection = await dial(
                record.endpoint,
                token=spec.secrets.worker_auth_token,
                within_seconds=how.within_seconds,
                ping_seconds=how.ping_seconds,
            )
    except BaseException as error:
        await _abandon(process, fabric, child_id)
        if isinstance(error, TimeoutError):
            seconds = f"{how.within_seconds:g}"
            words = (await process.last_words())[-_LAST_WORDS:]
            told = f"The child was not reachable within {seconds} seconds."
            raise SpawnTimedOut(f"{told} It said: {words}" if words else told) from None
        raise
    return RunningChild(
        agent_id=child_id,
        role=spec.identity.role,
        endpoint=record.endpoint,
        connection=connection,
        process=process,
        fabric=fabric,
        is_reusable=spec.reusable,
    )


async def _awaited(process: ChildProcess, fabric: Path, child_id: str) -> Record:
    while True:
        code = process.exit_code
        record = await asyncio.to_thread(records.find_record, fabric, child_id)
        if code is not None:
            words = (await process.last_words())[-_LAST_WORDS:]
            told = f"The child's process ended with code {code} before it could be reached."
            raise SpawnFailed(f"{told} It said: {words}" if words else told)
        if record is not None:
            return record
        await asyncio.sleep(POLL_SECONDS)


def _clear(fabric: Path, child_id: str) -> None:
    """A record that an earlier process of that id left must not be taken for the new one's."""
    try:
        fabric.mkdir(mode=0o700, parents=True, exist_ok=True)
        records.withdraw(fabric, child_id)
    except (OSError, records.BadRecord) as error:
        kind = type(error).__name__
        raise SpawnFailed(f"The folder for children's records cannot be used ({kind}).") from None


async def _abandon(process: ChildProcess, fabric: Path, child_id: str) -> None:
    process.kill()
    await process.end(grace_seconds=0)
    with contextlib.suppress(OSError, records.BadRecord, FleetError):
        await asyncio.to_thread(records.withdraw, fabric, child_id)
