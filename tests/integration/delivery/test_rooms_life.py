"""A room is made for its first reader and goes after its last; who writes there goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.delivery.test_hub import commit, run_elsewhere, start_message, v1_text
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.delivery.event_log import PAGE
from workspaces.delivery.hub import Hub
from workspaces.delivery.readers import NativeReader, V1Reader, Wire
from workspaces.delivery.room import Room
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.types import Delta

LINGER_SECONDS = 0.05


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """On both databases."""


@pytest_asyncio.fixture
async def hub(_database: None) -> AsyncIterator[Hub]:
    hub = Hub(linger_seconds=LINGER_SECONDS)
    await hub.start()
    yield hub
    await hub.stop()


def opened(path: str) -> str:
    return run_elsewhere("", lambda tx: open_workspace(tx, Opening(path, "/data")))[0].pk


@pytest.fixture
def workspace_id(_database: None) -> str:
    return opened("/project")


def joined(room: Room) -> NativeReader:
    reader = NativeReader(Wire.WS)
    room.join_native(reader)
    return reader


async def until_another(hub: Hub, room: Room) -> Room:
    async with asyncio.timeout(60):
        while (found := await hub.room(room.workspace_id)) is room:
            await asyncio.sleep(0.005)
    return found


def tasks_of_the_hub() -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith(("hub-", "relay-"))]


async def test_an_unknown_workspace_leaves_nothing_behind(hub: Hub) -> None:
    for _ in range(2):
        with pytest.raises(WorkspaceUnknown):
            await hub.room("nowhere")

    assert hub._rooms == {}
    assert hub._producers == {}


async def test_an_empty_room_goes_and_the_next_reader_gets_a_new_one(
    hub: Hub, workspace_id: str
) -> None:
    room = await hub.room(workspace_id)
    reader = joined(room)
    hub.leave(room, reader)
    assert reader.closed
    assert await hub.room(workspace_id) is room  # for a while it stays

    new = await until_another(hub, room)

    reader = joined(new)
    recorded = commit(workspace_id)
    hub.publish(recorded)
    async with asyncio.timeout(60):
        assert [number for _, number in await reader.take()] == [recorded[-1].number]
    assert hub._producers == {workspace_id: {}}


async def test_a_room_stays_while_somebody_reads_it(hub: Hub, workspace_id: str) -> None:
    room = await hub.room(workspace_id)
    first, second = joined(room), joined(room)
    hub.leave(room, first)
    await asyncio.sleep(2 * LINGER_SECONDS)
    assert await hub.room(workspace_id) is room

    hub.leave(room, second)
    joined(room)  # who comes back in time finds it
    await asyncio.sleep(2 * LINGER_SECONDS)

    assert await hub.room(workspace_id) is room


async def test_the_old_rooms_end_does_not_take_the_new_one(hub: Hub, workspace_id: str) -> None:
    room = await hub.room(workspace_id)
    hub.leave(room, joined(room))
    new = await until_another(hub, room)
    hub.leave(room, joined(room))  # its stream ended late

    await asyncio.sleep(2 * LINGER_SECONDS)

    assert await hub.room(workspace_id) is new


async def test_a_writer_goes_on_when_the_room_has_gone(hub: Hub, workspace_id: str) -> None:
    live, recorded = start_message(workspace_id)
    hub.publish(recorded)
    hub.begin(workspace_id, live)
    room = await hub.room(workspace_id)
    hub.leave(room, joined(room))
    hub.stream(workspace_id, Delta(live.number, 0, 0, "first ", "text"))
    new = await until_another(hub, room)
    hub.stream(workspace_id, Delta(live.number, 0, 6, "second"))

    ((_, progress),) = new.join_native(NativeReader(Wire.WS))

    assert progress["message"]["parts"] == [{"type": "text", "data": {"text": "first second"}}]


async def test_the_end_of_one_message_does_not_stop_another(hub: Hub, workspace_id: str) -> None:
    (first, _), (second, _) = start_message(workspace_id), start_message(workspace_id)
    hub.begin(workspace_id, first)
    hub.begin(workspace_id, second)
    hub.end(workspace_id, first.number)
    hub.end(workspace_id, first.number)
    hub.end("nowhere", 1)

    hub.stream(workspace_id, Delta(second.number, 0, 0, "words", "text"))

    assert second.parts[0].text() == "words"
    hub.end(workspace_id, second.number)
    assert hub._producers == {}


async def test_a_room_follows_each_message_that_is_begun_here(hub: Hub, workspace_id: str) -> None:
    room = await hub.room(workspace_id)
    reader = V1Reader()
    room.join_v1(reader)
    for text in ("one", "two"):
        live, recorded = start_message(workspace_id)
        hub.publish(recorded)  # its event comes before its writer
        hub.begin(workspace_id, live)
        hub.stream(workspace_id, Delta(live.number, 0, 0, text, "text"))
        assert await v1_text(room, reader) == text
        hub.end(workspace_id, live.number)

    live, recorded = start_message(workspace_id)
    hub.begin(workspace_id, live)  # and here behind it
    hub.publish(recorded)
    hub.stream(workspace_id, Delta(live.number, 0, 0, "three", "text"))
    assert await v1_text(room, reader) == "three"


async def test_a_reader_whose_cursor_is_ahead_of_the_room_is_caught_up_with(
    hub: Hub, workspace_id: str
) -> None:
    room = await hub.room(workspace_id)
    count = PAGE + 1

    def fill(tx: Transaction) -> int:
        return [tx.append(workspace_id, "x", {}) for _ in range(count)][-1]

    last = run_elsewhere(workspace_id, fill)[0]  # by another process

    async with asyncio.timeout(60):
        await hub.catch_up(room, last)
        assert room.last_number == last
        while tasks_of_the_hub() != ["hub-heartbeat"]:
            await asyncio.sleep(0.005)


async def test_an_event_far_ahead_of_the_room_brings_all_that_came_before(
    hub: Hub, workspace_id: str
) -> None:
    room = await hub.room(workspace_id)

    def fill(tx: Transaction) -> int:
        return [tx.append(workspace_id, "x", {}) for _ in range(PAGE + 1)][-1]

    recorded = run_elsewhere(workspace_id, fill)[1]

    hub.publish(recorded[-1:])

    async with asyncio.timeout(60):
        while room.last_number < recorded[-1].number:
            await asyncio.sleep(0.005)


async def test_a_hub_that_stops_ends_its_readers_and_its_tasks(
    workspace_id: str,
) -> None:
    hub = Hub()
    await hub.start()
    room = await hub.room(workspace_id)
    reader = joined(room)

    assert tasks_of_the_hub() != []
    await hub.stop()
    assert tasks_of_the_hub() == []
    assert await reader.take() == []  # it has ended
    assert reader.closed
    assert await hub.room(workspace_id) is not room
