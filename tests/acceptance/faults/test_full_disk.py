"""The disk of the database is full: clients are told so, runs wait, cancels work."""

import asyncio
import time

import pytest

from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Workspace
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer
from tests.acceptance.small_disk import SmallDisk
from tests.acceptance.watching import LogWatch

_FULL_SECONDS = 4.0


async def test_runs_wait_for_free_space_and_clients_are_notified(
    small_disk: SmallDisk, make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(
        Shape.EMBEDDED, env={"CRUSH_DATA_DIR": str(small_disk.folder / "data"), "CRUSH_LEASE": "2"}
    )
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project(options={"data_directory": "/tmp/none"}))
    sessions = [await seat.workspace.session() for _ in range(4)]
    for number, session in enumerate(sessions):
        words = 150 if number < 3 else 20_000  # the last one is cancelled in its middle
        await seat.workspace.prompt(session, f"[[n={words} d=20 id=w{number}]]", f"run {number}")
        await seat.stream.words(session, 3)
    log = LogWatch(server)
    filled_at = time.monotonic()
    small_disk.fill()
    with pytest.raises(UnexpectedStatus) as refused:
        await _prompt_until_refused(seat.workspace, sessions[0])
    assert refused.value.status == 507
    assert refused.value.message.startswith("No space is left on the disk")
    await seat.workspace.cancel(sessions[3])
    await asyncio.sleep(_FULL_SECONDS)
    assert await seat.workspace.messages(sessions[0])  # reading goes on
    small_disk.free()
    full_seconds = time.monotonic() - filled_at
    cancelled = await seat.stream.run_complete(sessions[3], "run 3")
    assert cancelled["cancelled"] is True
    assert len(cancelled.get("text", "").split()) < 20_000
    for number, session in enumerate(sessions[:3]):
        complete = await seat.stream.run_complete(session, f"run {number}")
        assert "error" not in complete, complete
        assert complete["text"].split() == [f"w{number}-{n}" for n in range(150)]
    lines = [line for line in log.text().splitlines() if " info " not in line]
    assert len(lines) <= (full_seconds + 3) * 2, lines
    assert "Traceback" not in log.text()


async def _prompt_until_refused(workspace: Workspace, session: str) -> None:
    while True:  # the database uses up the space that it has already
        await workspace.prompt(session, "[[n=1]]" + "x" * 100_000)
