"""From what connections receive to the items of a stream, across any number of connections. Pure.

Each event comes once and in order, and each character of an open message once, however often the
connection ends and wherever it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from crushclient.items import (
    LogEvent,
    MessageState,
    NewText,
    OtherItem,
    OutputSoFar,
    PartKind,
    StreamItem,
    StreamLive,
)
from crushclient.open_messages import Fit, OpenMessage, Piece, lacks_text

STARTING = frozenset({"message.started", "message.restarted"})
CLOSING = frozenset({"message.finished", "message.updated"})
RESUME = "stream.resume"


class StreamBroken(Exception):
    """What came does not fit to what came before: the stream must be read again at its cursor."""


class StreamFold:
    """``cursor`` is the number of the newest event; ``None`` starts with the next one."""

    def __init__(self, cursor: int | None = None) -> None:
        self.cursor = cursor
        self._open: dict[int, OpenMessage] = {}
        self._controls: Mapping[str, Callable[[Mapping[str, Any]], list[StreamItem]]] = {
            "message.progress": self._progress,
            "tool.output": self._output,
            "stream.opened": self._opened,
        }

    def take(self, raw: Any) -> list[StreamItem]:
        """Returns the items that a received one results in. Raises ``StreamBroken``."""
        try:
            if isinstance(raw, list):
                return self._delta(*raw)
            if "number" in raw:
                return self._event(raw["number"], raw["type"], raw["data"])
            control = self._controls.get(raw["type"])
            if control is not None:
                return control(raw["data"])
            return [] if raw["type"] == RESUME else [OtherItem(raw["type"], raw.get("data") or {})]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise StreamBroken(f"the server sent a malformed item: {error!r}") from error

    # -- the log

    def _event(self, number: int, kind: str, data: Mapping[str, Any]) -> list[StreamItem]:
        if self.cursor is not None and number <= self.cursor:
            return []
        if self.cursor is not None and number != self.cursor + 1:
            raise StreamBroken(f"event {number} came after event {self.cursor}")
        items: list[StreamItem] = []
        if kind in STARTING:
            self._close(data["message"]["id"])
            self._open[number] = OpenMessage(number, data["message"])
        elif kind in CLOSING:
            items, data = self._closed(data)
        elif kind == "session.deleted":
            gone = data["session"]["id"]
            self._open = {n: m for n, m in self._open.items() if m.session_id != gone}
        self.cursor = number
        return [*items, LogEvent(number, kind, data)]

    def _closed(self, data: Mapping[str, Any]) -> tuple[list[StreamItem], Mapping[str, Any]]:
        message = data["message"]
        known = next((each for each in self._open.values() if each.id == message["id"]), None)
        if lacks_text(message):
            complete = known.with_text(message) if known is not None else None
            if complete is None:
                # Read again from the log, the event contains the text.
                raise StreamBroken("a message ended with text that never came")
            message = complete
        if known is None:
            return [], {**data, "message": message}
        pieces = known.extend(message["parts"])
        is_shorter = [part.length for part in known.parts] != [
            part.length for part in OpenMessage(0, message).parts
        ]
        items: list[StreamItem]
        if pieces is None or is_shorter:
            items = [MessageState(known.number, message)]
        else:
            items = self._new_text(known, pieces)
        self._close(message["id"])
        return items, {**data, "message": message}

    def _close(self, message_id: str) -> None:
        for number in [n for n, each in self._open.items() if each.id == message_id]:
            del self._open[number]

    # -- text

    def _delta(
        self, number: int, part: int, offset: int, text: str, header: Any = None
    ) -> list[StreamItem]:
        message = self._open.get(number)
        if message is None:
            raise StreamBroken(f"text of the unknown message {number}")
        fit, piece = message.add(part, offset, text, header)
        match fit:
            case Fit.NEW:
                return self._new_text(message, [piece])
            case Fit.KNOWN:
                return []
            case Fit.CONTRADICTION:
                return [MessageState(number, message.to_wire())]
            case Fit.GAP:
                raise StreamBroken(f"text of message {number} is missing before {offset}")

    @staticmethod
    def _new_text(message: OpenMessage, pieces: Iterable[Piece]) -> list[StreamItem]:
        items: list[StreamItem] = []
        for piece in pieces:
            part = message.parts[piece.part]
            header = None
            if piece.is_first and part.kind == "tool_call":
                header = {"id": str(part.data["id"]), "name": str(part.data["name"])}
            items.append(
                NewText(
                    message.session_id,
                    message.id,
                    message.number,
                    piece.part,
                    piece.offset,
                    piece.text,
                    cast("PartKind", part.kind),
                    header,
                )
            )
        return items

    # -- not in the log

    def _progress(self, data: Mapping[str, Any]) -> list[StreamItem]:
        number, message = data["number"], data["message"]
        known = self._open.get(number)
        pieces = known.extend(message["parts"]) if known is not None else None
        if known is not None and pieces is not None:
            return self._new_text(known, pieces)
        self._close(message["id"])
        self._open[number] = OpenMessage(number, message)
        return [MessageState(number, message)]

    def _output(self, data: Mapping[str, Any]) -> list[StreamItem]:
        return [
            OutputSoFar(
                data["session_id"], data["message_id"], data.get("tool_call_id", ""), data["text"]
            )
        ]

    def _opened(self, data: Mapping[str, Any]) -> list[StreamItem]:
        number = data["number"]
        if self.cursor is not None and number != self.cursor:
            raise StreamBroken(f"the stream opened at {number}, but event {self.cursor} came last")
        self.cursor = number
        return [StreamLive(number)]
