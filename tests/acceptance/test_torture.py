"""Readers of the native feed that drop, dawdle and come twice lose nothing and see nothing twice.

Those whose token is revoked meanwhile get the end of their stream, and nothing behind it.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import until
from tests.acceptance.conversation import text_of
from tests.acceptance.folding import Fold, differences
from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.acceptance.rough_reader import TRANSPORTS, Connection, RoughReader

Json = dict[str, Any]
Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

EVENTS = 10_000
DROPS = 1_000
READERS = 3  # of each transport
STREAMING = (
    "[[n=150 d=4 reason=20]]",
    '[[tools=2 ls {"path": "."}]] [[n=40 d=3 before=10]]',
    '[[tool=bash {"command": "touch made", "description": "make"}]] [[n=20 d=2]]',
)


async def snapshot_of(workspace: Workspace, session: str = "") -> Json:
    answer = await workspace.client.http.call(
        "GET",
        f"/api/workspaces/{workspace.id}/snapshot",
        params={"session": session, "limit": 1000},
    )
    return dict(answer)


class Mill:
    """Makes events of every kind until it is told to stop."""

    def __init__(self, workspace: Workspace, chance: random.Random) -> None:
        self.workspace = workspace
        self.chance = chance
        self.is_over = False
        self.talking: list[str] = []  # sessions in which runs are
        self.number = 0
        self.snapshots: list[Json] = []

    async def work(self) -> None:
        self.talking = [await self.workspace.session() for _ in range(6)]
        renamed = [await self.workspace.session() for _ in range(8)]
        async with asyncio.TaskGroup() as group:
            for session in self.talking:
                group.create_task(self.talk(session))
            for session in renamed:
                group.create_task(self.rename(session))
            group.create_task(self.answer())
            group.create_task(self.look())

    async def talk(self, session: str) -> None:
        number = 0
        while not self.is_over:
            number += 1
            await self.workspace.prompt(
                session, self.chance.choice(STREAMING), f"{session}-{number}"
            )
            if self.chance.random() < 0.2:
                await asyncio.sleep(self.chance.random() * 0.5)
                await self.workspace.cancel(session)
            while (await self.workspace.get_session(session))["is_busy"]:
                await asyncio.sleep(0.1)

    async def rename(self, session: str) -> None:
        """One event each, and little work: the bulk of them."""
        number = 0
        while not self.is_over:
            number += 1
            body = {"title": f"title {number}"}
            await self.workspace.call("PUT", f"/sessions/{session}", body)

    async def answer(self) -> None:
        reader = RoughReader(
            int(self.workspace.client.http.url.rpartition(":")[2]),
            self.workspace.id,
            "ws",
            chance=random.Random(0),
        )
        while not self.is_over or (await self.workspace.agent())["is_busy"]:
            await reader.read_to(0)
            self.number = reader.fold.number
            for request in list(reader.fold.requests.values()):
                action = self.chance.choice(["allow", "allow_session", "deny"])
                await self.workspace.grant(request, action)
            await asyncio.sleep(0.1)

    async def look(self) -> None:
        while not self.is_over:
            await asyncio.sleep(1)
            self.snapshots.append(await snapshot_of(self.workspace))


class RevokedReaders:
    """Readers with a token each, which is revoked while they read."""

    def __init__(self, workspace: Workspace, port: int, chance: random.Random) -> None:
        self._workspace = workspace
        self._port = port
        self._chance = chance
        self.ended: Counter[str] = Counter()  # by transport

    async def work(self, is_over: Callable[[], bool]) -> None:
        async with asyncio.TaskGroup() as group:
            for transport in TRANSPORTS:
                group.create_task(self._come_and_go(transport, is_over))

    async def _come_and_go(self, transport: str, is_over: Callable[[], bool]) -> None:
        while not is_over():
            http = self._workspace.client.http
            made = await http.call("POST", "/api/tokens", {"name": "torture"}, expect=201)
            connection = await Connection.open(
                self._port, self._workspace.id, transport, after=0, token=made["token"]
            )
            reading = asyncio.create_task(self._read_to_the_end(connection))
            await asyncio.sleep(self._chance.random() * 2)
            assert not reading.done(), "a stream ended while its token was valid"
            await http.call("DELETE", f"/api/tokens/{made['id']}", expect=204)
            async with asyncio.timeout(60):
                await reading
            assert connection.close_code == (4401 if transport == "ws" else None)
            connection.drop()
            self.ended[transport] += 1

    async def _read_to_the_end(self, connection: Connection) -> None:
        fold = Fold()
        while not connection.has_ended:
            items, size = await connection.read()
            assert size, "cut off before its end"
            for item in items:
                fold.take(item)
        # While the others get much. A socket is cut off then, because it does not answer the close.
        with suppress(TimeoutError, ConnectionResetError):
            async with asyncio.timeout(1.5):
                assert await connection.read() == ([], 0), "something came behind the end"


@pytest.mark.timeout(900)
async def test_readers_that_reconnect_arrive_at_the_state_of_the_database(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # shown when it fails
    workspace = await connect(shared_server).workspace(project("tortured"))
    await workspace.attach()
    mill = Mill(workspace, random.Random(seed))
    readers = [
        RoughReader(
            shared_server.port, workspace.id, transport, chance=random.Random(seed + number)
        )
        for number, transport in enumerate(TRANSPORTS * READERS, 1)
    ]
    revoked = RevokedReaders(workspace, shared_server.port, random.Random(seed))
    began = time.monotonic()

    def drops() -> int:
        return sum(reader.drops for reader in readers)

    async def watch() -> None:
        while mill.number < EVENTS or drops() < DROPS:
            await asyncio.sleep(0.1)
        mill.is_over = True

    async with asyncio.TaskGroup() as group:
        group.create_task(mill.work())
        group.create_task(watch())
        group.create_task(revoked.work(lambda: mill.is_over))
        for reader in readers:
            group.create_task(reader.torture(lambda: mill.is_over, mean_bytes=60_000))
    final = await snapshot_of(workspace)
    print(f"{final['number']} events, {drops()} drops in {time.monotonic() - began:.0f} s")
    print(f"streams ended by a revoked token: {dict(revoked.ended)}")
    assert min(revoked.ended[transport] for transport in TRANSPORTS) >= 3
    assert not any(session.get("is_busy") for session in final["sessions"])
    # Those who come long after get everything too.
    readers += [
        RoughReader(shared_server.port, workspace.id, transport, chance=random.Random(seed))
        for transport in TRANSPORTS
    ]
    for reader in readers:
        await reader.read_to(final["number"])
        assert differences(reader.fold, final) == []
        reader.fold.check_runs()
    assert final["number"] >= EVENTS
    assert sum(reader.doubles for reader in readers) >= 10
    assert sum(reader.fold.deltas for reader in readers) >= 1000
    for session in mill.talking:
        stored = await snapshot_of(workspace, session)
        shown = await workspace.messages(session)  # has fewer fields than the native form
        assert [
            {name: native[name] for name in message}
            for native, message in zip(stored["messages"], shown, strict=True)
        ] == shown
        for reader in readers:
            assert differences(reader.fold, stored, session) == []
    await check_snapshots(shared_server, workspace, mill.snapshots)


async def check_snapshots(server: Server, workspace: Workspace, taken: list[Json]) -> None:
    """A snapshot taken in the middle of it all is the log folded up to its number."""
    assert taken
    connection = await Connection.open(server.port, workspace.id, "sse", after=0)
    fold, waiting = Fold(), list(taken)
    while waiting:
        items, size = await connection.read()
        assert size, "the stream ended"
        for item in items:
            fold.take(item)
            while waiting and fold.number == waiting[0]["number"]:
                assert _comparable(fold.sessions.values()) == _comparable(
                    waiting.pop(0)["sessions"]
                )
    connection.drop()


def _comparable(sessions: Iterable[Json]) -> dict[str, Json]:
    # How many messages a session has, and since when, readers know from its messages.
    from_messages = ("message_count", "updated_at")
    return {s["id"]: {n: v for n, v in s.items() if n not in from_messages} for s in sessions}


async def agree(reader: RoughReader, workspace: Workspace, session: str = "") -> None:
    """The folded state is the stored one. A title or skills may be told behind the last run's
    end: then both are read again."""
    async with asyncio.timeout(60):
        while True:
            stored = await snapshot_of(workspace, session)
            await reader.read_to(stored["number"])
            if reader.fold.number == stored["number"]:
                break
    assert differences(reader.fold, stored, session or None) == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_slow_reader_receives_resume_and_loses_nothing(
    shared_server: Server, connect: Connect, project: MakeProject, transport: str
) -> None:
    client = connect(shared_server)
    workspace = await client.workspace(project("slow"))
    await workspace.attach()
    chance = random.Random(3)
    reader = RoughReader(shared_server.port, workspace.id, transport, chance=chance)
    connection = await reader.connect(receive_buffer=65_536)
    while not reader.fold.is_live:
        for item in (await connection.read(2000))[0]:
            reader.fold.take(item)
    seen = reader.fold.number
    # It does not read while more is said than its queue and every buffer hold.
    sessions = [await workspace.session() for _ in range(60)]
    for number, session in enumerate(sessions):
        long = "x" * (100_000 + 4_000 * number)
        await workspace.prompt(session, f"[[n=3]] {long}", f"long {number}")
    async with asyncio.timeout(180):
        while (await workspace.agent())["is_busy"]:
            await asyncio.sleep(0.1)
    connection.hurry()
    # What was sent before it was given up comes, then where to resume, then the end.
    async with asyncio.timeout(60):
        while not connection.has_ended:
            items, size = await connection.read()
            assert size, "cut off before the last word"
            for item in items:
                assert reader.fold.resume_at is None, "something came after the last word"
                reader.fold.take(item)
    connection.drop()
    final = await snapshot_of(workspace)
    assert reader.fold.resume_at is not None
    assert seen <= reader.fold.resume_at < final["number"]
    await agree(reader, workspace)
    for session in sessions[::10]:
        await agree(reader, workspace, session)
    reader.fold.check_runs()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("cursor", ["none", "0"])
async def test_a_reader_that_joins_mid_message_gets_its_text_and_continues_exactly(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
    transport: str,
    cursor: str,
) -> None:
    workspace = await connect(shared_server).workspace(project("joined"))
    stream = await workspace.attach()
    session, gate = await workspace.session(), model.new_gate()
    await workspace.prompt(session, f"[[n=400 d=10 reason=5 hold=100 gate={gate}]]", "talks")
    await stream.words(session, 100)

    async def is_stored() -> bool:  # who joins is told what is stored, which may lag behind
        return len(text_of((await workspace.messages(session))[-1]).split()) == 100

    await until(is_stored, "the words before the gate are stored")
    after = None if cursor == "none" else int(cursor)
    connection = await Connection.open(shared_server.port, workspace.id, transport, after=after)
    progress: Json = {}
    text, deltas, items = "", 0, []
    async with asyncio.timeout(60):
        while not (items and isinstance(items[-1], dict) and items[-1]["type"] == "run.finished"):
            more, size = await connection.read()
            assert size, "the stream ended"
            for item in more:
                items.append(item)
                if isinstance(item, list):
                    number, part, offset, words = item[:4]
                    assert (number, part, offset) == (progress["number"], 1, len(text))
                    text += words
                    deltas += 1
                elif item["type"] == "message.progress":
                    assert not progress
                    progress = item["data"]
                    assert progress["message"]["parts"][0]["type"] == "reasoning"
                    text = text_of(progress["message"])
                    await asyncio.to_thread(model.open_gate, gate)
                if isinstance(item, dict) and item["type"] == "run.finished":
                    break
    connection.drop()
    assert len(text_of(progress["message"]).split()) >= 30
    assert deltas >= 10
    messages = await workspace.messages(session)
    assert text == text_of(messages[-1])
    assert len(text.split()) == 400
    kinds = [item["type"] for item in items if isinstance(item, dict)]
    if after is None:
        assert kinds[:2] == ["message.progress", "stream.opened"]
    else:
        at = kinds.index("message.progress")
        assert kinds[0] == "workspace.opened"
        assert "message.started" in kinds[:at]
        assert kinds[at + 1] == "stream.opened"
