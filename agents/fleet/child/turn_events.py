"""From a workspace's native stream to the events of the children's wire.

Pure. Words go on as they come; a tool's call when it is whole, and its result
with it. Offsets make it exact: after a gap only what is new of a message is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from workspaces.log.types import Kind, StreamOnly

Json = dict[str, Any]

_WORDS = {"text": "text", "reasoning": "thinking", "tool_call": "input"}
_EVENTS = {"text": "token", "reasoning": "reasoning_token"}


@dataclass(slots=True)
class _Part:
    kind: str
    told: int = 0  # characters
    id: str = ""  # of a tool's call
    name: str = ""
    words: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Reply:
    message_id: str
    parts: list[_Part] = field(default_factory=list)


class Translation:
    """Of one session, and of the sessions below it as far as their questions go."""

    def __init__(self, session_id: str) -> None:
        self.session_ids = {session_id}
        self.cursor: int | None = None  # to go on from after the feed has ended
        self.replies = 0
        self.answer = ""  # the words of the last whole reply
        self._session_id = session_id
        self._replies: dict[int, _Reply] = {}

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
        known = [n for n, reply in self._replies.items() if reply.message_id == message["id"]]
        for other in known:
            del self._replies[other]
        self.replies += not known  # one that is begun anew is the same round
        self._replies[number] = _Reply(message["id"])

    def _delta(
        self, number: int, index: int, offset: int, text: str, header: Any = None
    ) -> Iterator[Json]:
        reply = self._replies.get(number)
        if reply is None:
            return
        if index == len(reply.parts):
            reply.parts.append(_opened(header))
        if index >= len(reply.parts):
            return  # the message's end tells what is missing
        part = reply.parts[index]
        if offset <= part.told:
            yield from _more(part, text[part.told - offset :])

    def _progress(self, data: Mapping[str, Any]) -> Iterator[Json]:
        message = data["message"]
        if not self._is_ours(message):
            return
        reply = self._replies.get(data["number"])
        if reply is None:
            self._begin(data["number"], message)
            reply = self._replies.get(data["number"])
        if reply is not None:
            yield from _catch_up(reply, message["parts"])

    def _finish(self, message: Mapping[str, Any]) -> Iterator[Json]:
        number = next(
            (n for n, reply in self._replies.items() if reply.message_id == message["id"]), None
        )
        if number is None:
            return
        reply = self._replies.pop(number)
        yield from _catch_up(reply, message["parts"])
        self.answer = "".join(
            word for part in reply.parts if part.kind == "text" for word in part.words
        )
        for part in reply.parts:
            if part.kind == "tool_call":
                yield {
                    "type": "tool_start",
                    "tool_call_id": part.id,
                    "tool_name": part.name,
                    "arguments": _arguments("".join(part.words)),
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


def _opened(header: Any) -> _Part:
    if isinstance(header, dict):
        return _Part("tool_call", id=header["id"], name=header["name"])
    return _Part("reasoning" if header == "reasoning" else "text")


def _more(part: _Part, text: str) -> Iterator[Json]:
    if not text:
        return
    part.told += len(text)
    part.words.append(text)
    if part.kind in _EVENTS:
        yield {"type": _EVENTS[part.kind], "content": text}


def _catch_up(reply: _Reply, parts: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
    """What of a whole message has not been told."""
    for index, wire in enumerate(parts):
        kind, data = wire["type"], wire["data"]
        if index == len(reply.parts):
            reply.parts.append(_Part(kind, id=data.get("id", ""), name=data.get("name", "")))
        part = reply.parts[index]
        words = data.get(_WORDS.get(kind, ""))
        if words is not None:  # else we have had them all, and only their number comes
            yield from _more(part, words[part.told :])


def _arguments(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text  # as the model wrote it
