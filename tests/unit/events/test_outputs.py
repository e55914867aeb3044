"""What runs is told as it runs: the newest only, never after its end."""

from __future__ import annotations

from typing import Any

import orjson

from tests.unit.events.played import Played, event, message, started
from workspaces.events import outputs
from workspaces.events.readers import NativeReader
from workspaces.events.types import Kind, Output


def output(text: str, *, call: str = "c", message_id: str = "m") -> Output:
    return Output("s", message_id, call, text)


async def taken(played: Played, reader: NativeReader) -> list[Any]:
    played.room.native.flush()
    played.room.native.flush_outputs()
    reader.beat()  # or nothing might be there to take
    return [item for chunk, _ in await reader.take() for item in orjson.loads(chunk)]


def texts(items: list[Any]) -> list[str]:
    return [item["data"]["text"] for item in items if item["type"] == "tool.output"]


def result(number: int, *calls: str) -> Any:
    parts = [{"type": "tool_result", "data": {"tool_call_id": call}} for call in calls]
    return event(
        number, Kind.MESSAGE_CREATED, message={**message(id="t"), "role": "tool", "parts": parts}
    )


def command_message(text: str) -> dict[str, Any]:
    data = {"command": "make", "output": text, "exit_code": 0}
    return {**message(), "role": "user", "parts": [{"type": "shell_command", "data": data}]}


async def test_a_reader_is_told_the_newest_of_each_call() -> None:
    played = Played()
    reader = played.native()
    for text in ("a", "ab", "abc"):
        played.room.output(output(text))
        played.room.output(output(text.upper(), call="d"))
    items = await taken(played, reader)
    assert texts(items) == ["abc", "ABC"]
    assert items[0] == {
        "type": "tool.output",
        "data": {"session_id": "s", "message_id": "m", "tool_call_id": "c", "text": "abc"},
    }


async def test_a_slow_reader_is_told_less_often_and_never_cut_off_for_it() -> None:
    played = Played()
    reader = played.native(limit=1_000)
    for number in range(100):
        played.room.output(output(f"{number} " + "x" * 500))
        played.room.native.flush_outputs()
    assert not reader.overflowed
    (text,) = texts(await taken(played, reader))
    assert text.startswith("99 ")


async def test_nothing_is_told_of_a_call_after_its_result() -> None:
    played = Played()
    reader = played.native()
    played.room.output(output("offered"))
    played.room.native.flush_outputs()
    played.room.output(output("waiting", call="d"))
    played.room.output(output("another", call="e"))
    played.room.publish(result(1, "c", "d"))
    items = await taken(played, reader)
    assert texts(items) == ["another"]
    assert items[0]["type"] == Kind.MESSAGE_CREATED


async def test_a_command_is_begun_before_it_is_told_of() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(event(1, Kind.MESSAGE_STARTED, message=command_message("")))
    played.room.output(output("a", call=""))
    played.room.native.flush_outputs()  # before the events' own flush has come
    items = [item for chunk, _ in await reader.take() for item in orjson.loads(chunk)]
    assert [item["type"] for item in items] == ["message.started", "tool.output"]


async def test_a_users_command_grows_for_whoever_sees_whole_messages() -> None:
    played = Played()
    v1 = played.v1()
    played.room.publish(event(1, Kind.MESSAGE_STARTED, message=command_message("")))
    played.room.output(output("a", call=""))
    played.room.output(output("ab", call=""))
    told = await played.told_v1(v1)
    shown = [t["payload"]["payload"]["parts"][0]["data"]["output"] for t in told]
    assert shown == ["", "ab"]
    # Who joins in its middle is shown it as it stands.
    late = await played.told_v1(played.v1())
    assert late[0]["payload"]["payload"]["parts"][0]["data"]["output"] == "ab"
    played.room.publish(event(2, Kind.MESSAGE_FINISHED, message=command_message("abc")))
    played.room.output(output("too late", call=""))
    (final,) = await played.told_v1(v1)
    assert final["payload"]["payload"]["parts"][0]["data"]["output"] == "abc"


async def test_output_of_a_message_that_is_not_known_is_left_out() -> None:
    played = Played()
    reader = played.native()
    played.room.output(output("a", call="", message_id="other"))
    played.room.publish(started(1))
    assert texts(await taken(played, reader)) == []


def test_telling_reaches_whoever_listens_and_nobody_else() -> None:
    heard: list[tuple[str, Output]] = []

    def listen(workspace_id: str, told: Output) -> None:
        heard.append((workspace_id, told))

    outputs.tell_output("w", output("before"))
    outputs.listen_to_output(listen)
    try:
        outputs.tell_output("w", output("now"))
    finally:
        outputs.stop_listening_to_output(listen)
        outputs.stop_listening_to_output(listen)
    outputs.tell_output("w", output("after"))
    assert heard == [("w", output("now"))]


async def test_nothing_is_told_to_a_reader_that_must_come_back() -> None:
    played = Played()
    reader = played.native(limit=10)
    played.room.publish(event(1))
    played.room.native.flush()
    assert reader.overflowed
    played.room.output(output("late"))
    played.room.native.flush_outputs()
    assert b"late" not in b"".join(chunk for chunk, _ in await reader.take())
