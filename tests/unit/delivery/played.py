"""A room that is played by hand, and what its readers were told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from workspaces.delivery.open_message import LiveMessage
from workspaces.delivery.readers import NativeReader, V1Reader, Wire
from workspaces.delivery.room import Room
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Delta, Kind


def event(number: int, kind: str = Kind.RUN_STARTED, **payload: Any) -> RecordedEvent:
    return RecordedEvent("w", number, kind, "s", payload, orjson.dumps(payload), 0)


def message(text: str | None = None, *, id: str = "m", finish: str = "") -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if text is not None:
        parts.append({"type": "text", "data": {"text": text}})
    if finish:
        parts.append({"type": "finish", "data": {"reason": finish, "time": 1}})
    return {"id": id, "session_id": "s", "role": "assistant", "parts": parts}


def started(number: int, id: str = "m") -> RecordedEvent:
    return event(number, Kind.MESSAGE_STARTED, message=message(id=id))


def finished(number: int, text: str, id: str = "m") -> RecordedEvent:
    return event(number, Kind.MESSAGE_FINISHED, message=message(text, id=id, finish="end_turn"))


def run_finished(number: int) -> RecordedEvent:
    run = {"session_id": "s", "message_id": "m", "outcome": "cancelled"}
    return event(number, Kind.RUN_FINISHED, run=run)


def words(number: int, offset: int, text: str) -> Delta:
    return Delta(number, 0, offset, text, "text" if offset == 0 else None)


class Played:
    """A room with its wishes written down instead of carried out."""

    def __init__(self, *, last_number: int | None = 0) -> None:
        self.producers: dict[int, LiveMessage] = {}
        self.asked_events = 0
        self.asked_messages: list[int] = []
        self.room = Room(
            "w",
            producers=self.producers,
            request_events=lambda room: self._request_events(),
            request_message=lambda room, number: self.asked_messages.append(number),
        )
        if last_number is not None:
            self.room.prime(last_number, {})

    def _request_events(self) -> None:
        self.asked_events += 1

    def native(self, *, limit: int = 1_000_000) -> NativeReader:
        reader = NativeReader(Wire.WS, limit=limit)
        self.room.join_native(reader)
        return reader

    def v1(self, push: Callable[[bytes], bool] | None = None) -> V1Reader:
        reader = V1Reader(push)
        self.room.join_v1(reader)
        return reader

    async def told(self, reader: NativeReader) -> list[Any]:
        self.room.native.flush()
        reader.beat()  # or nothing might be there to take
        return [item for chunk, _ in await reader.take() for item in orjson.loads(chunk)]

    async def told_v1(self, reader: V1Reader) -> list[dict[str, Any]]:
        self.room.v1.flush()
        reader.beat()
        return envelopes(await reader.take(self.room.v1.batch))


def envelopes(frames: bytes) -> list[dict[str, Any]]:
    blocks = frames.removesuffix(b"\n\n").strip().split(b"\n\n")
    return [orjson.loads(block[6:]) for block in blocks if block]


def numbers(items: list[Any]) -> list[int]:
    return [item["number"] for item in items if isinstance(item, dict) and "number" in item]


def texts(frames: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Of ``/v1`` envelopes: the kind, and of messages the words."""
    found = []
    for frame in frames:
        payload = frame["payload"]["payload"]
        parts = payload.get("parts", [])
        said = "".join(p["data"]["text"] for p in parts if p["type"] == "text")
        found.append((frame["type"], said))
    return found
