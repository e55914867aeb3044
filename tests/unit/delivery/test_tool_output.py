"""What runs is told as it runs: the newest only, never after its end."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from tests.unit.delivery.played import Played, event, message, run_finished, started
from workspaces.delivery import tool_output
from workspaces.delivery.readers import NativeReader, Wire
from workspaces.log.types import Kind, Output


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


async def test_nothing_is_told_of_a_command_after_its_end() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(event(1, Kind.MESSAGE_STARTED, message=command_message("")))
    played.room.native.flush()
    played.room.output(output("offered", call=""))
    played.room.output(output("of a tool", message_id="m"))
    played.room.native.flush_outputs()

    played.room.publish(event(2, Kind.MESSAGE_FINISHED, message=command_message("all")))

    assert texts(await taken(played, reader)) == ["of a tool"]


async def test_output_reaches_a_reader_of_server_sent_events() -> None:
    played = Played()
    reader = NativeReader(Wire.SSE)
    played.room.join_native(reader)
    taking = asyncio.create_task(reader.take())
    await asyncio.sleep(0)

    played.room.output(output("so far"))
    played.room.native.flush_outputs()

    ((chunk, number),) = await asyncio.wait_for(taking, 60)
    event_line, data_line, *_ = chunk.decode().split("\n")
    assert event_line == "event: tool.output"
    assert orjson.loads(data_line.removeprefix("data: "))["data"]["text"] == "so far"
    assert number == 0  # it does not move the cursor


def joined(played: Played) -> list[str]:
    return [data["text"] for _, data in played.room.join_native(NativeReader(Wire.WS))]


async def test_a_reader_that_joins_gets_the_newest_output_of_running_tools() -> None:
    played = Played(last_number=None)
    played.room.prime(0, {}, [output("from before", call="e")])
    played.room.output(output("a"))
    played.room.output(output("ab"))
    played.room.output(output("other", call="d"))
    assert joined(played) == ["from before", "ab", "other"]

    played.room.publish(result(1, "c", "e"))
    assert joined(played) == ["other"]
    played.room.publish(run_finished(2))
    assert joined(played) == []


async def test_output_that_is_repeated_is_sent_once() -> None:
    played = Played()
    reader = played.native()
    played.room.output(output("a"))
    assert texts(await taken(played, reader)) == ["a"]
    played.room.output(output("a"))
    assert texts(await taken(played, reader)) == []


async def test_output_goes_out_by_itself() -> None:
    played = Played()
    reader = played.native()
    played.room.output(output("so far"))

    async with asyncio.timeout(60):
        ((chunk, _),) = await reader.take()

    assert b"so far" in chunk


async def test_each_change_of_a_command_is_shown_to_whoever_sees_whole_messages() -> None:
    played = Played()
    v1 = played.v1()
    played.room.publish(event(1, Kind.MESSAGE_STARTED, message=command_message("")))
    shown = []
    for text in ("a", "ab"):
        played.room.output(output(text, call=""))
        told = await played.told_v1(v1)
        shown.append(told[-1]["payload"]["payload"]["parts"][0]["data"]["output"])

    assert shown == ["a", "ab"]
    assert played.room.live[1].size == 2


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
    heard: list[Any] = []

    class Listener:
        def output(self, workspace_id: str, output: Output) -> None:
            heard.append((workspace_id, output))

        def end_output(self, workspace_id: str, key: tuple[str, str]) -> None:
            heard.append((workspace_id, key))

    listen = Listener()
    tool_output.publish_output("w", output("before"))
    tool_output.listen_to_output(listen)
    try:
        tool_output.publish_output("w", output("now"))
        tool_output.end_output("w", ("m", "c"))
    finally:
        tool_output.stop_listening_to_output(listen)
        tool_output.stop_listening_to_output(listen)
    tool_output.publish_output("w", output("after"))
    tool_output.end_output("w", ("m", "after"))
    assert heard == [("w", output("now")), ("w", ("m", "c"))]


async def test_a_reader_that_overflows_loses_the_output_that_waits() -> None:
    reader = NativeReader(Wire.WS, limit=10)
    reader.offer_output(("m", "c"), b"output")

    reader.offer(b"x" * 11, 1)

    assert await reader.take() == []


async def test_nothing_is_told_to_a_reader_that_is_closed() -> None:
    reader = NativeReader(Wire.WS)
    reader.close()

    reader.offer_output(("m", "c"), b"output")

    assert await reader.take() == []


async def test_nothing_is_told_to_a_reader_that_must_come_back() -> None:
    played = Played()
    reader = played.native(limit=10)
    played.room.publish(event(1))
    played.room.native.flush()
    assert reader.overflowed
    played.room.output(output("late"))
    played.room.native.flush_outputs()
    assert b"late" not in b"".join(chunk for chunk, _ in await reader.take())
