"""Translates a workspace's native stream into the events of the children's wire.

Pure. Text is sent as it arrives, a tool call when it is complete, then its result.
Offsets make the text exact: after a gap, only the new text of a message is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from workspaces.delivery.open_message import Applied, LiveMessage, OpenMessages
from workspaces.log.types import Delta, Kind, StreamOnly

Json = dict[str, Any]

_EVENTS = {"text": "token", "reasoning": "reasoning_token"}


class Translation:
    """Translates one session; of its child sessions, only the permission requests."""

    def __init__(self, session_id: str) -> None:
        self.session_ids = {session_id}
        self.cursor: int | None = None  # where to resume after the stream has ended
        self.replies = 0
        self.answer = ""  # the text of the last complete reply
        self._session_id = session_id
        self._replies = OpenMessages()

    def items_of(self, chunk: bytes) -> list[Any]:
        items: list[Any] = orjson.loads(chunk)
        return items

    def take(self, item: Any) -> Iterator[Json]:
        if isinstance(item, list):
            yield from self._delta(*item)
            return
        number, data = item.get("number"), item["data"]
        if number is not None:
            self.cursor = number
        match item["type"]:
            case StreamOnly.OPENED:
                self.cursor = data["number"]
            case StreamOnly.RESUME:
                self.cursor = data["after"]
            case StreamOnly.PROGRESS:
                yield from self._progress(data)
            case Kind.SESSION_CREATED:
                if data["session"].get("parent_session_id") in self.session_ids:
                    self.session_ids.add(data["session"]["id"])
            case Kind.MESSAGE_STARTED | Kind.MESSAGE_RESTARTED:
                self._begin(number, data["message"])
            case Kind.MESSAGE_FINISHED:
                yield from self._finish(data["message"])
            case Kind.MESSAGE_CREATED:
                yield from self._results(data["message"])
            case _:
                pass

    def _is_ours(self, message: Mapping[str, Any]) -> bool:
        return bool(message["session_id"] == self._session_id)

    def _begin(self, number: int, message: Mapping[str, Any]) -> None:
        if not self._is_ours(message) or message["role"] != "assistant":
            return
        if self._replies.close(message["id"]) is None:  # a restarted reply is the same round
            self.replies += 1
        self._replies[number] = LiveMessage(number, {**message, "parts": []})

    def _delta(self, *fields: Any) -> Iterator[Json]:
        delta = Delta(*fields)
        reply = self._replies.get(delta.number)
        if reply is None:
            return
        outcome, new = reply.apply(delta)
        if outcome is Applied.NEW:  # after a gap the finished message supplies what is missing
            yield from _events(reply, [new])

    def _progress(self, data: Mapping[str, Any]) -> Iterator[Json]:
        message = data["message"]
        if not self._is_ours(message):
            return
        if data["number"] not in self._replies:
            self._begin(data["number"], message)
        reply = self._replies.get(data["number"])
        if reply is not None:
            yield from _events(reply, reply.catch_up(message["parts"]))

    def _finish(self, message: Mapping[str, Any]) -> Iterator[Json]:
        reply = self._replies.close(message["id"])
        if reply is None:
            return
        yield from _events(reply, reply.catch_up(message["parts"]))
        self.answer = "".join(part.text() for part in reply.parts if part.header == "text")
        for part in reply.parts:
            if isinstance(part.header, Mapping):
                yield {
                    "type": "tool_start",
                    "tool_call_id": part.header["id"],
                    "tool_name": part.header["name"],
                    "arguments": _arguments(part.text()),
                }

    def _results(self, message: Mapping[str, Any]) -> Iterator[Json]:
        if not self._is_ours(message) or message["role"] != "tool":
            return
        for part in message["parts"]:
            if part["type"] == "tool_result":
                data = part["data"]
                result = {"success": not data["is_error"], "result": data["content"]}
                yield {
                    "type": "tool_complete",
                    "tool_call_id": data["tool_call_id"],
                    "result": result,
                }


def _events(reply: LiveMessage, deltas: Iterable[Delta]) -> Iterator[Json]:
    """Yields the new text of the reply, without that of tool calls."""
    for delta in deltas:
        header = reply.parts[delta.part].header
        if delta.text and isinstance(header, str):
            yield {"type": _EVENTS[header], "content": delta.text}


def _arguments(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text  # unchanged, as the model wrote it
