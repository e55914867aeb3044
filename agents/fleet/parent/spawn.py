"""Starts a child on this machine and waits until it can be reached.

The arguments are fixed, and the provisioning document goes to standard input. Then
the parent watches the fabric folder for the child's record. After any failure, no
process and no record is left.
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
from agents.fleet.provisioning.codec import write_spec
from agents.fleet.provisioning.spec import ProvisionSpec
from agents.fleet.records import Record


@dataclass(frozen=True, slots=True)
class Remote:
    """A child at a configured endpoint."""

    endpoint: str
    token: str | None = field(default=None, repr=False)
    within_seconds: float = DIAL_SECONDS
    ping_seconds: float = PING_SECONDS
    tls: ssl.SSLContext | None = field(default=None, repr=False)


async def reach_remote(remote: Remote, *, role: str = "") -> RunningChild:
    """Connects to a configured endpoint. Raises ``DialFailed``."""
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
    """Returns the first live child of that id or role that answers.

    A child that is busy with another parent may not answer the handshake; then the
    next one is tried. Raises ``NoSuchChild``.
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
_STDERR_SHOWN = 2000
_PROGRAM = Path(__file__).resolve().parents[3] / "crushsite" / "__main__.py"


def own_command() -> tuple[str, ...]:
    """Returns the command of this program's own child."""
    return (sys.executable, str(_PROGRAM), "runchild")


@dataclass(frozen=True, slots=True)
class Launch:
    """How a child's process is started. Must not hold secrets."""

    command: tuple[str, ...] = field(default_factory=own_command)
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the variables passed on
    within_seconds: float = 30.0
    ping_seconds: float = PING_SECONDS


async def spawn_child(spec: ProvisionSpec, launch: Launch | None = None) -> RunningChild:
    """Starts a child and connects to it. Raises ``FleetError``, ``BadSpec``."""
    how = launch or Launch()
    document = write_spec(spec)
    fabric = Path(spec.fabric_dir)
    child_id = spec.identity.child_id
    await asyncio.to_thread(_clear, fabric, child_id)
    workspace = Path(spec.workspace) if spec.workspace else None
    process = await ChildProcess.start(how.command, folder=workspace, environment=how.environment)
    try:
        async with asyncio.timeout(how.within_seconds):
            writing = asyncio.create_task(process.write_input(document))
            try:
                record = await _awaited(process, fabric, child_id)
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
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
            output = (await process.stderr_end())[-_STDERR_SHOWN:]
            sentence = f"The sub-agent could not be reached within {seconds} seconds."
            raise SpawnTimedOut(
                f"{sentence} Its last output: {output}" if output else sentence
            ) from None
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
            output = (await process.stderr_end())[-_STDERR_SHOWN:]
            sentence = f"The sub-agent's process ended with code {code} before it could be reached."
            raise SpawnFailed(f"{sentence} Its last output: {output}" if output else sentence)
        if record is not None:
            return record
        await asyncio.sleep(POLL_SECONDS)


def _clear(fabric: Path, child_id: str) -> None:
    """Removes an earlier process's record of that id, which would look like the new one's."""
    try:
        fabric.mkdir(mode=0o700, parents=True, exist_ok=True)
        records.withdraw(fabric, child_id)
    except (OSError, records.BadRecord) as error:
        kind = type(error).__name__
        raise SpawnFailed(
            f"The folder of the sub-agents' records, {fabric}, cannot be used ({kind})."
        ) from None


async def _abandon(process: ChildProcess, fabric: Path, child_id: str) -> None:
    process.kill()
    await process.end(grace_seconds=0)
    with contextlib.suppress(OSError, records.BadRecord, FleetError):
        await asyncio.to_thread(records.withdraw, fabric, child_id)
