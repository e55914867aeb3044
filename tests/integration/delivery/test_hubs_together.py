"""Two processes over one channel layer: readers of one follow what the other writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio
from channels.layers import get_channel_layer

from tests.doubles.joined_layer import JOINED_LAYER, JoinedLayer
from tests.integration.delivery.test_hub import commit, run_elsewhere, start_message, v1_text
from tests.integration.delivery.test_rooms_life import tasks_of_the_hub
from workspaces.actions import messages
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.delivery.hub import Hub
from workspaces.delivery.open_message import LiveMessage
from workspaces.delivery.readers import NativeReader, V1Reader, Wire
from workspaces.delivery.relay import group_of
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.parts import Finish, FinishReason, Text
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Delta, Kind, Output


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """On both databases."""


@pytest_asyncio.fixture
async def hubs(_database: None, settings: Any) -> AsyncIterator[tuple[Hub, Hub]]:
    settings.CHANNEL_LAYERS = JOINED_LAYER
    # Neither looks for lost events by itself: what arrives was relayed.
    here = Hub(poll_seconds=60, output_seconds=0.02)
    there = Hub(poll_seconds=60, linger_seconds=0.01)
    for hub in (here, there):
        await hub.start()
    yield here, there
    for hub in (here, there):
        await hub.stop()
    assert tasks_of_the_hub() == []


@pytest.fixture
def workspace_id(_database: None) -> str:
    return run_elsewhere("", lambda tx: open_workspace(tx, Opening("/project", "/data")))[0].pk


def members(workspace_id: str) -> set[str]:
    layer = get_channel_layer()
    assert isinstance(layer, JoinedLayer)
    return layer._groups[group_of(workspace_id)]


def checkpoint(workspace_id: str, live: LiveMessage, text: str) -> None:
    message_id = live.message["id"]
    run_elsewhere(
        workspace_id,
        lambda tx: messages.checkpoint_message(tx, message_id, parts=(Text(text),)),
    )


def finish(workspace_id: str, live: LiveMessage, text: str) -> list[RecordedEvent]:
    message_id = live.message["id"]
    parts = (Text(text), Finish(FinishReason.END_TURN))
    return run_elsewhere(
        workspace_id, lambda tx: messages.finish_message(tx, workspace_id, message_id, parts=parts)
    )[1]


async def until_no_repair() -> None:
    async with asyncio.timeout(60):
        while "hub-repair" in tasks_of_the_hub():
            await asyncio.sleep(0.005)


async def gap(hubs: tuple[Hub, Hub], workspace_id: str) -> tuple[LiveMessage, V1Reader]:
    """The reader there has missed the first words of a message that is open."""
    here, there = hubs
    live, recorded = start_message(workspace_id)
    here.publish(recorded)
    here.begin(workspace_id, live)
    here.stream(workspace_id, Delta(live.number, 0, 0, "first ", "text"))
    await asyncio.sleep(0.02)  # it goes to nobody: the other process has no room yet
    room = await there.room(workspace_id)
    reader = V1Reader()
    room.join_v1(reader)
    here.stream(workspace_id, Delta(live.number, 0, 6, "second"))
    async with asyncio.timeout(60):
        while not room.waits_for(live.number):
            await asyncio.sleep(0.005)
    return live, reader


async def test_events_words_and_output_reach_the_readers_of_another_process(
    hubs: tuple[Hub, Hub], workspace_id: str
) -> None:
    here, there = hubs
    room = await there.room(workspace_id)
    reader = NativeReader(Wire.WS)
    room.join_native(reader)
    live, recorded = start_message(workspace_id)

    here.publish(recorded)
    here.begin(workspace_id, live)
    here.stream(workspace_id, Delta(live.number, 0, 0, "words", "text"))
    here.output(workspace_id, Output("s", "m", "c", "so far"))

    items: list[Any] = []
    async with asyncio.timeout(60):
        while len(items) < len(recorded) + 2:
            for chunk, _ in await reader.take():
                items += orjson.loads(chunk)
    numbers = [item["number"] for item in items if "number" in item]
    assert numbers == [event.number for event in recorded]
    assert [live.number, 0, 0, "words", "text"] in items
    assert [i["data"]["text"] for i in items if "type" in i and i["type"] == "tool.output"] == [
        "so far"
    ]


async def test_words_that_the_layer_loses_are_read_from_the_database(
    hubs: tuple[Hub, Hub], workspace_id: str
) -> None:
    here, _ = hubs
    there = Hub(poll_seconds=60, still_seconds=0.02)
    await there.start()
    try:
        room = await there.room(workspace_id)
        reader = NativeReader(Wire.WS)
        room.join_native(reader)
        live, recorded = start_message(workspace_id)
        here.publish(recorded)
        texts: list[str] = []
        for text in ("first", "first second"):
            checkpoint(workspace_id, live, text)  # no delta arrives
            async with asyncio.timeout(60):
                while text not in texts:
                    for chunk, _ in await reader.take():
                        texts += [text_of(item) for item in orjson.loads(chunk)]
        # What stands still is sent once.
        before = room.live[live.number]
        await asyncio.sleep(0.1)
        assert room.live[live.number] is before
        assert [text for text in texts if text] == ["first", "first second"]
    finally:
        await there.stop()


def text_of(item: Any) -> str:
    if isinstance(item, dict) and item.get("type") == "message.progress":
        return "".join(part["data"].get("text", "") for part in item["data"]["message"]["parts"])
    return ""


async def test_output_from_before_a_room_reaches_it_later_and_once(
    hubs: tuple[Hub, Hub], workspace_id: str
) -> None:
    here, there = hubs
    here.output(workspace_id, Output("s", "m", "c", "so far"))
    await asyncio.sleep(0.02)  # it goes to nobody: the other process has no room yet
    room = await there.room(workspace_id)
    reader = NativeReader(Wire.WS)
    room.join_native(reader)

    async with asyncio.timeout(60):
        ((chunk, _),) = await reader.take()
    assert orjson.loads(chunk)[0]["data"]["text"] == "so far"
    here.output(workspace_id, Output("s", "m", "d", "another"))
    async with asyncio.timeout(60):
        ((chunk, _),) = await reader.take()
    assert [item["data"]["text"] for item in orjson.loads(chunk)] == ["another"]
    assert len(room.join_native(NativeReader(Wire.WS))) == 2


async def test_output_that_waits_for_the_relay_does_not_follow_the_result(
    hubs: tuple[Hub, Hub], workspace_id: str
) -> None:
    here, there = hubs
    room = await there.room(workspace_id)
    here.output(workspace_id, Output("s", "m", "c", "so far"))
    here.end_output(workspace_id, ("m", "c"))
    parts = [{"type": "tool_result", "data": {"tool_call_id": "c"}}]
    result = {"id": "t", "role": "tool", "parts": parts}
    reader = NativeReader(Wire.WS)
    room.join_native(reader)
    recorded = run_elsewhere(
        workspace_id,
        lambda tx: tx.append(workspace_id, Kind.MESSAGE_CREATED, {"message": result}),
    )[1]
    here.publish(recorded)
    here.output(workspace_id, Output("s", "m", "d", "of another call"))

    items: list[Any] = []
    async with asyncio.timeout(60):
        while len(items) < 2:
            for chunk, _ in await reader.take():
                items += orjson.loads(chunk)
    assert [item["type"] for item in items] == ["message.created", "tool.output"]
    assert [data["text"] for _, data in room.join_native(NativeReader(Wire.WS))] == [
        "of another call"
    ]


async def test_words_that_were_lost_come_from_the_row_once_it_has_them(
    hubs: tuple[Hub, Hub], workspace_id: str
) -> None:
    live, reader = await gap(hubs, workspace_id)
    room = await hubs[1].room(workspace_id)
    assert await v1_text(room, reader) == ""

    checkpoint(workspace_id, live, "first ")
    await until_no_repair()

    assert await v1_text(room, reader) == "first second"
    assert not room.waits_for(live.number)
    checkpoint(workspace_id, live, "first second and lost ")
    hubs[0].stream(workspace_id, Delta(live.number, 0, 12, " and lost "))
    room.live[live.number] = LiveMessage(live.number, {**live.message, "parts": []})
    hubs[0].stream(workspace_id, Delta(live.number, 0, 22, "again"))
    async with asyncio.timeout(60):
        while await v1_text(room, reader) != "first second and lost again":
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_repair_ends_with_its_message(
    hubs: tuple[Hub, Hub], workspace_id: str, is_known: bool
) -> None:
    live, _ = await gap(hubs, workspace_id)
    recorded = finish(workspace_id, live, "first second")
    if is_known:
        hubs[0].publish(recorded)

    await until_no_repair()


async def test_a_repair_ends_when_its_last_reader_leaves(
    hubs: tuple[Hub, Hub], workspace_id: str
) -> None:
    _, reader = await gap(hubs, workspace_id)
    hubs[1].leave(await hubs[1].room(workspace_id), reader)

    await until_no_repair()


async def test_a_hub_stops_in_the_midst_of_a_repair(
    hubs: tuple[Hub, Hub], workspace_id: str
) -> None:
    await gap(hubs, workspace_id)
    assert "hub-repair" in tasks_of_the_hub()


async def test_only_processes_with_a_room_are_in_the_workspaces_group(
    hubs: tuple[Hub, Hub], workspace_id: str
) -> None:
    here, there = hubs
    room = await there.room(workspace_id)
    assert len(members(workspace_id)) == 1
    await here.room(workspace_id)
    assert len(members(workspace_id)) == 2

    reader = NativeReader(Wire.WS)
    room.join_native(reader)
    there.leave(room, reader)
    async with asyncio.timeout(60):
        while len(members(workspace_id)) == 2:
            await asyncio.sleep(0.005)

    with pytest.raises(WorkspaceUnknown):
        await there.room("nowhere")
    assert members("nowhere") == set()


async def test_lost_events_are_found_again_and_again(workspace_id: str, settings: Any) -> None:
    settings.CHANNEL_LAYERS = JOINED_LAYER
    hub = Hub(poll_seconds=0.02)
    await hub.start()
    try:
        room = await hub.room(workspace_id)
        reader = NativeReader(Wire.WS)
        room.join_native(reader)
        for _ in range(3):
            recorded = commit(workspace_id)
            async with asyncio.timeout(60):
                assert [n for _, n in await reader.take()] == [recorded[-1].number]
    finally:
        await hub.stop()
