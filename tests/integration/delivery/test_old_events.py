"""Old events are deleted from a log; nobody who lacks one gets a gap, on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from tests.integration.delivery.test_hub import run_elsewhere
from workspaces.actions.old_events import count_old_events, delete_old_events
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.delivery.event_log import PAGE
from workspaces.delivery.hub import Hub
from workspaces.delivery.readers import Wire
from workspaces.delivery.subscribe import stream_native
from workspaces.log.errors import CursorExpired
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import Event, Workspace

OLD, YOUNG = 1_000, 2_000


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """On both databases."""


def append(tx: Transaction, workspace_id: str, *, at: int, count: int = 1) -> None:
    tx.now = at
    for _ in range(count):
        tx.append(workspace_id, Kind.CONFIG_CHANGED, {"workspace_id": workspace_id})


def with_log(*, old: int, young: int) -> str:
    """Returns a workspace whose log has these numbers of events."""

    def job(tx: Transaction) -> str:
        tx.now = OLD
        workspace_id = open_workspace(tx, Opening("/project", "/data")).pk
        append(tx, workspace_id, at=OLD, count=old - 1)  # its opening is one
        append(tx, workspace_id, at=YOUNG, count=young)
        return workspace_id

    return run_elsewhere("", job)[0]


def delete(workspace_id: str, *, before: int = YOUNG, limit: int = 5000) -> int:
    job_of = delete_old_events
    return run_elsewhere(
        workspace_id, lambda tx: job_of(tx, workspace_id, before=before, limit=limit)
    )[0]


def numbers(workspace_id: str) -> list[int]:
    return list(
        Event.objects.filter(workspace_id=workspace_id)
        .order_by("number")
        .values_list("number", flat=True)
    )


async def first_items(hub: Hub, workspace_id: str, after: int | None) -> list[Any]:
    """What a stream sends until it is live."""
    items: list[Any] = []
    stream = stream_native(hub, workspace_id, after=after, wire=Wire.WS)
    async with asyncio.timeout(60):
        async for chunk in stream:
            items += orjson.loads(chunk)
            if any(item["type"] == "stream.opened" for item in orjson.loads(chunk)):
                break
    await stream.aclose()  # type: ignore[attr-defined]  # a generator
    return items


def test_only_old_events_are_deleted_and_a_few_at_once() -> None:
    workspace_id = with_log(old=5, young=2)
    assert count_old_events(workspace_id, before=YOUNG) == 5

    assert [delete(workspace_id, limit=3) for _ in range(3)] == [3, 2, 0]

    assert numbers(workspace_id) == [6, 7]
    assert Workspace.objects.get().first_event == 6
    assert count_old_events(workspace_id, before=YOUNG) == 0


def test_an_old_event_behind_a_young_one_stays_so_that_there_is_no_gap() -> None:
    workspace_id = with_log(old=2, young=1)
    run_elsewhere(workspace_id, lambda tx: append(tx, workspace_id, at=OLD))

    assert count_old_events(workspace_id, before=YOUNG) == 2
    assert delete(workspace_id) == 2
    assert numbers(workspace_id) == [3, 4]


def test_the_numbers_go_on_after_a_log_was_emptied() -> None:
    workspace_id = with_log(old=3, young=0)
    delete(workspace_id)
    run_elsewhere(workspace_id, lambda tx: append(tx, workspace_id, at=YOUNG))

    assert numbers(workspace_id) == [4]
    assert Workspace.objects.get().first_event == 4


async def test_a_cursor_before_the_kept_events_is_refused(hub: Hub) -> None:
    workspace_id = with_log(old=5, young=2)
    delete(workspace_id)

    for after in (0, 4):
        with pytest.raises(CursorExpired):
            await first_items(hub, workspace_id, after)
    kept = await first_items(hub, workspace_id, 5)
    assert [item["number"] for item in kept if "number" in item] == [6, 7]


async def test_a_cursor_is_refused_when_no_event_is_left(hub: Hub) -> None:
    workspace_id = with_log(old=5, young=0)
    delete(workspace_id)

    with pytest.raises(CursorExpired):
        await first_items(hub, workspace_id, 4)
    assert len(await first_items(hub, workspace_id, 5)) == 1
    assert len(await first_items(hub, workspace_id, None)) == 1


async def test_a_stream_whose_events_are_deleted_meanwhile_ends(hub: Hub) -> None:
    workspace_id = with_log(old=PAGE + 5, young=1)
    stream = stream_native(hub, workspace_id, after=0, wire=Wire.WS)
    async with asyncio.timeout(60):
        assert [item["number"] for item in orjson.loads(await anext(stream))][-1] == PAGE
        delete(workspace_id)
        assert orjson.loads(await anext(stream)) == [
            {"type": "stream.resume", "data": {"after": PAGE}}
        ]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


@pytest.mark.parametrize("young", [0, 1])
async def test_a_room_that_has_missed_deleted_events_begins_again(hub: Hub, young: int) -> None:
    workspace_id = with_log(old=2, young=0)
    stream = stream_native(hub, workspace_id, after=2, wire=Wire.WS)
    async with asyncio.timeout(60):
        await anext(stream)
        # Another process writes events and deletes them before this one has seen them.
        run_elsewhere(workspace_id, lambda tx: append(tx, workspace_id, at=OLD, count=3))
        run_elsewhere(workspace_id, lambda tx: append(tx, workspace_id, at=YOUNG, count=young))
        delete(workspace_id)

        room = await hub.room(workspace_id)
        await hub.catch_up(room, 5 + young)

        assert [chunk async for chunk in stream] == []  # its client reconnects
        with pytest.raises(CursorExpired):
            await first_items(hub, workspace_id, 2)
        assert room.last_number == 5 + young
