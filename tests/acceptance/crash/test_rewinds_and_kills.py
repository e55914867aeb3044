"""`kill -9` while a rewind restores files, and while it is undone: it completes, and people lose nothing."""

import asyncio
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.calling import until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.crash.ground import PATIENT, QUICK, Connect, MakeProject, MakeServer
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Server

FILES = 40
KILLED_AFTER = {"embedded": (0, 5, 30), "scaled": (5,)}  # files; a worker completes it in a minute
PERSONS = "a person wrote this\n"


@dataclass
class Work:
    """A session whose tools have changed some files and created others."""

    server: Server
    seat: Seat
    session: str
    folder: Path
    first: str  # the message that stays

    def file(self, number: int) -> Path:
        return self.folder / f"file-{number:02}.txt"

    def contents(self) -> list[str | None]:
        files = [self.file(number) for number in range(FILES)]
        return [file.read_text() if file.exists() else None for file in files]

    async def call(self, method: str, rest: str, body: Any = None, **more: Any) -> Any:
        workspace = self.seat.workspace
        path = f"/api/workspaces/{workspace.id}/sessions/{self.session}/{rest}"
        return await workspace.client.http.call(method, path, body, **more)

    async def kill_during(self, rest: str, body: Any, *, after: int) -> None:
        """Sends a request, and kills the server when so many files are restored."""
        before = self.contents()
        sending = asyncio.create_task(self._send(rest, body))
        await asyncio.sleep(0.01)  # with 0 files: at about the time at which it is stored
        async with asyncio.timeout(60):
            while sum(a != b for a, b in zip(before, self.contents(), strict=True)) < after:
                await asyncio.sleep(0)
        await asyncio.to_thread(self.server.kill9)
        await sending

    async def _send(self, rest: str, body: Any) -> None:
        with contextlib.suppress(aiohttp.ClientError, ConnectionError, UnexpectedStatus):
            await self.call("POST", rest, body, expect=201)

    async def start(self, connect: Connect) -> None:
        await asyncio.to_thread(self.server.start)
        client_id = self.seat.workspace.client_id
        self.seat = await take_seat(
            connect(self.server), self.folder, yolo=True, client_id=client_id
        )

    async def rewind(self, *states: str) -> dict[str, Any] | None:
        """Returns the only rewind once it is in one of these states; none if it was not stored."""

        async def found() -> list[Any] | None:
            items = (await self.call("GET", "rewinds"))["items"]
            return None if items and items[0]["state"] not in states else [*items, None]

        return (await until(found, f"the rewind is {states}", timeout=120))[0]


async def worked(server: Server, connect: Connect, folder: Path) -> Work:
    for number in range(0, FILES, 2):  # the others are created
        (folder / f"file-{number:02}.txt").write_text("old\n")
    seat = await take_seat(connect(server), folder, yolo=True)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=2]]", "first")
    await seat.stream.run_complete(session, "first")
    first = (await seat.workspace.messages(session))[-1]["id"]
    names = [f"file-{number:02}.txt" for number in range(FILES)]
    views = [f"view {json.dumps({'file_path': name})}" for name in names[::2]]
    writes = [f"write {json.dumps({'file_path': name, 'content': 'new'})}" for name in names]
    for run_id, calls in (("views", views), ("writes", writes)):
        text = f"[[calls={' ;; '.join(calls)}]] [[n=2]]"
        await seat.workspace.prompt(session, text, run_id)
        await seat.stream.run_complete(session, run_id)
    work = Work(server, seat, session, folder, first)
    assert work.contents() == ["new"] * FILES
    return work


OLD = ["old\n", None] * (FILES // 2)
NEW: list[str | None] = ["new"] * FILES


@pytest.mark.timeout(600)
async def test_a_killed_rewind_and_a_killed_undo_complete_and_spare_what_people_wrote(
    make_a_server: MakeServer, shape: str, connect: Connect, project: MakeProject
) -> None:
    for after in KILLED_AFTER[shape]:
        server = make_a_server(shape, env={**PATIENT, **QUICK})
        server.start()
        work = await worked(server, connect, project(f"after-{after}"))
        body = {"message_id": work.first, "keeps_message": True, "with_files": True}

        await work.kill_during("rewinds", body, after=after)
        # The last file was not reached yet, unless the rewind was complete before the kill.
        work.file(FILES - 1).write_text(PERSONS)
        await work.start(connect)
        rewind = await work.rewind("done")
        count = len(await work.seat.workspace.messages(work.session))
        if rewind is None:  # killed before it was stored: nothing is undone
            assert work.contents() == [*NEW[:-1], PERSONS]
            assert count > 2
            continue
        assert work.contents() == [*OLD[:-1], PERSONS]
        assert count == 2
        results = {file["path"].rsplit("/")[-1]: file["result"] for file in rewind["files"]}
        assert len(results) == FILES
        # If it was deleted before, the person created a file, which nothing has to leave.
        assert results.pop(f"file-{FILES - 1:02}.txt") in {"left", "deleted"}
        assert set(results.values()) == {"restored", "deleted"}

        await work.kill_during(f"rewinds/{rewind['id']}/undo", None, after=after)
        work.file(FILES - 2).write_text(PERSONS)
        await work.start(connect)
        undone = await work.rewind("undone", "done")
        assert undone is not None
        is_undone = undone["state"] == "undone"
        assert work.contents() == [*(NEW if is_undone else OLD)[:-2], PERSONS, PERSONS]
        count = len(await work.seat.workspace.messages(work.session))
        assert (count > 2) == is_undone
