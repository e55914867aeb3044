"""A room's readers miss nothing, whenever the room is made and whatever gets lost."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import orjson
import pytest
from django.db import connection

from tests.doubles.losing_layer import LOSING_LAYER
from workspaces.actions import messages
from workspaces.actions.sessions import create_session
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.delivery.event_log import PAGE
from workspaces.delivery.hub import Hub
from workspaces.delivery.open_message import LiveMessage
from workspaces.delivery.readers import NativeReader, V1Reader, Wire
from workspaces.delivery.room import Room
from workspaces.delivery.subscribe import stream_native
from workspaces.log.commits import Job, run_alone
from workspaces.log.reader import THREADS, read
from workspaces.log.transaction import RecordedEvent, Transaction
from workspaces.log.types import Delta, Kind, Output

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """On both databases."""


def run_elsewhere(workspace_id: str, job: Job[T]) -> tuple[T, list[RecordedEvent]]:
    """In another thread, while this one (and its loop) waits."""

    def run() -> tuple[T, list[RecordedEvent]]:
        try:
            return run_alone(workspace_id, job)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


@pytest.fixture
def workspace_id(_database: None) -> str:
    return run_elsewhere("", lambda tx: open_workspace(tx, Opening("/project", "/data")))[0].pk


def commit(workspace_id: str) -> list[RecordedEvent]:
    """One more event of the log, as another thread or process commits it."""

    def job(tx: Transaction) -> None:
        tx.append(workspace_id, Kind.CONFIG_CHANGED, {"workspace_id": workspace_id})

    return run_elsewhere(workspace_id, job)[1]


def start_message(workspace_id: str) -> tuple[LiveMessage, list[RecordedEvent]]:
    """A reply that is open in the database; nobody reads the workspace yet."""

    def job(tx: Transaction) -> LiveMessage:
        session = create_session(tx, workspace_id, title="t")
        number, message = messages.start_message(
            tx, workspace_id, session["id"], run_key=1, model="m", provider="p"
        )
        return LiveMessage(number, message)

    return run_elsewhere(workspace_id, job)


async def test_an_event_that_is_committed_while_a_room_is_made_reaches_it(
    hub: Hub, workspace_id: str
) -> None:
    """The room has read the log already, and does not know yet what it has read."""
    others = [threading.Event() for _ in range(THREADS - 1)]
    blocked = [asyncio.ensure_future(read(other.wait, 60)) for other in others]
    making = asyncio.ensure_future(hub.room(workspace_id))
    for _ in range(5):
        await asyncio.sleep(0)
    log_was_read = threading.Event()
    marker = asyncio.ensure_future(read(log_was_read.set))  # the one free thread comes to it next
    await asyncio.sleep(0)
    assert log_was_read.wait(60)  # the loop stands still meanwhile
    recorded = commit(workspace_id)
    hub.publish(recorded)

    room = await making

    assert room.last_number == recorded[-1].number
    for other in others:
        other.set()
    await asyncio.gather(*blocked, marker)


async def test_events_whose_message_was_lost_between_processes_are_found(
    workspace_id: str, settings: Any
) -> None:
    settings.CHANNEL_LAYERS = LOSING_LAYER
    hub = Hub(poll_seconds=0.02)
    await hub.start()
    try:
        room = await hub.room(workspace_id)
        reader = NativeReader(Wire.WS)
        room.join_native(reader)
        recorded = commit(workspace_id)  # by another process: nothing of it is published here

        async with asyncio.timeout(60):
            found = [number for chunk, number in await reader.take()]

        assert found == [recorded[-1].number]
    finally:
        await hub.stop()


async def v1_text(room: Room, reader: V1Reader) -> str:
    room.v1.flush()
    async with asyncio.timeout(60):
        frames = (await reader.take(room.v1.batch)).split(b"\n\n")
    payload = orjson.loads([frame for frame in frames if frame][-1][6:])["payload"]["payload"]
    return "".join(part["data"].get("text", "") for part in payload["parts"])


async def test_a_room_that_is_made_in_mid_message_follows_its_words(
    hub: Hub, workspace_id: str
) -> None:
    live, recorded = start_message(workspace_id)
    hub.publish(recorded)
    hub.begin(workspace_id, live)
    hub.stream(workspace_id, Delta(live.number, 0, 0, "first ", "text"))

    room = await hub.room(workspace_id)
    v1, native = V1Reader(), NativeReader(Wire.WS)
    room.join_v1(v1)
    ((_, as_it_stands),) = room.join_native(native)
    assert as_it_stands["message"]["parts"] == [{"type": "text", "data": {"text": "first "}}]
    assert await v1_text(room, v1) == "first "

    hub.stream(workspace_id, Delta(live.number, 0, 6, "second", None))

    assert await v1_text(room, v1) == "first second"
    room.native.flush()
    async with asyncio.timeout(60):
        chunks = await native.take()
    assert b"second" in b"".join(chunk for chunk, _ in chunks)


async def test_a_silent_stream_has_a_heartbeat(workspace_id: str) -> None:
    hub = Hub(heartbeat_seconds=0.02)
    await hub.start()
    try:
        room = await hub.room(workspace_id)
        v1, native = V1Reader(), NativeReader(Wire.SSE)
        room.join_v1(v1)
        room.join_native(native)
        async with asyncio.timeout(60):
            assert await v1.take(room.v1.batch) == b"\n"
            assert await native.take()
    finally:
        await hub.stop()


async def test_what_a_tool_prints_reaches_the_readers(hub: Hub, workspace_id: str) -> None:
    room = await hub.room(workspace_id)
    native = NativeReader(Wire.WS)
    room.join_native(native)

    hub.output(workspace_id, Output("s", "m", "c", "so far"))

    async with asyncio.timeout(60):
        chunks = await native.take()
    assert b"so far" in b"".join(chunk for chunk, _ in chunks)


async def test_a_reader_that_comes_later_gets_the_output_of_tools_that_still_run(
    hub: Hub, workspace_id: str
) -> None:
    hub.output(workspace_id, Output("s", "m", "before", "before the room"))
    hub.output(workspace_id, Output("s", "m", "ended", "x"))
    hub.end_output(workspace_id, ("m", "ended"))
    hub.end_output(workspace_id, ("m", "unknown"))
    hub.end_output("nowhere", ("m", "unknown"))

    room = await hub.room(workspace_id)
    hub.output(workspace_id, Output("s", "m", "in it", "in the room"))

    assert [
        (kind, data["tool_call_id"], data["text"])
        for kind, data in room.join_native(NativeReader(Wire.WS))
    ] == [
        ("tool.output", "before", "before the room"),
        ("tool.output", "in it", "in the room"),
    ]


async def test_who_comes_while_a_room_is_made_gets_it_made(hub: Hub, workspace_id: str) -> None:
    commit_number = run_elsewhere(workspace_id, lambda tx: tx.append(workspace_id, "x", {}))[0]
    others = [threading.Event() for _ in range(THREADS)]
    blocked = [asyncio.ensure_future(read(other.wait, 60)) for other in others]
    first = asyncio.ensure_future(hub.room(workspace_id))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not first.done()  # no thread is free to read for it
    second = asyncio.ensure_future(hub.room(workspace_id))
    await asyncio.sleep(0)
    for other in others:
        other.set()

    room = await second

    assert room.primed
    assert room.last_number == commit_number
    assert await first is room
    await asyncio.gather(*blocked)


async def test_what_comes_between_the_replay_and_the_stream_is_told_once(
    hub: Hub, workspace_id: str
) -> None:
    numbers: list[int] = []

    def note(chunk: bytes) -> bool:
        """Whether the stream has opened."""
        for item in orjson.loads(chunk):
            if item["type"] == "stream.opened":
                return True
            numbers.append(item["number"])
        return False

    before = [commit(workspace_id)[-1].number for _ in range(3)]
    stream = stream_native(hub, workspace_id, after=0, wire=Wire.WS)
    async with asyncio.timeout(60):
        assert not note(await anext(stream))
        recorded = commit(workspace_id)  # it is told to the room, and the room to nobody yet
        hub.publish(recorded)
        while not note(await anext(stream)):
            pass
        later = commit(workspace_id)
        hub.publish(later)
        note(await anext(stream))
    await stream.aclose()

    last = later[-1].number
    assert before[-1] < recorded[-1].number < last
    assert numbers == list(range(1, last + 1))


async def test_a_long_log_is_replayed_to_its_end(hub: Hub, workspace_id: str) -> None:
    count = 3 * PAGE + 1

    def fill(tx: Transaction) -> int:
        return [tx.append(workspace_id, "x", {}) for _ in range(count)][-1]

    last = run_elsewhere(workspace_id, fill)[0]
    numbers: list[int] = []
    stream = stream_native(hub, workspace_id, after=0, wire=Wire.WS)
    async with asyncio.timeout(60):
        while numbers[-1:] != [last]:
            numbers += [item["number"] for item in orjson.loads(await anext(stream))]
        (opened,) = orjson.loads(await anext(stream))
    await stream.aclose()
    assert opened["type"] == "stream.opened"
    assert numbers == list(range(1, last + 1))
