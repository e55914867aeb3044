"""A program that prints words, as people write it with the client: text by message, events by number."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from crushclient import (
    Client,
    LogEvent,
    MessageState,
    NewText,
    RetryPolicy,
    StreamItem,
    StreamLost,
    Timeouts,
)

HASTY = RetryPolicy(attempts=200, first_seconds=0.01, limit_seconds=0.2)
Json = dict[str, Any]


def client_of(url: str, **options: Any) -> Client:
    return Client(url, retry=HASTY, timeouts=Timeouts(idle_seconds=25), **options)


class WordPrinter:
    """What such a program has on its screen."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.shown: dict[str, list[str]] = {}  # by message: the text of each part
        self.finished: dict[str, Json] = {}
        self.ends: list[Json] = []
        self.losses = 0
        self.replaced = 0

    def take(self, item: StreamItem) -> None:
        match item:
            case NewText():
                parts = self.shown.setdefault(item.message_id, [])
                if item.part == len(parts):
                    parts.append("")
                assert len(parts[item.part]) == item.offset, (item, parts)
                parts[item.part] += item.text
            case MessageState():
                self.replaced += 1
                self.shown[item.message["id"]] = texts_of(dict(item.message))
            case LogEvent():
                assert not self.numbers or item.number == self.numbers[-1] + 1, item
                self.numbers.append(item.number)
                self._event(item)
            case StreamLost():
                self.losses += 1

    def _event(self, event: LogEvent) -> None:
        if event.type in ("message.started", "message.restarted"):
            self.shown[event.data["message"]["id"]] = []
        elif event.type == "message.finished":
            message = dict(event.data["message"])
            self.finished[message["id"]] = message
            # The words on the screen are those of the message, whatever happened between.
            assert self.shown.get(message["id"], []) == texts_of(message)
        elif event.type == "run.finished":
            self.ends.append(dict(event.data["run"]))

    async def read_until(
        self, items: AsyncIterator[StreamItem], condition: Callable[["WordPrinter"], bool]
    ) -> None:
        while not condition(self):
            self.take(await anext(items))


def texts_of(message: Json) -> list[str]:
    """The text of each part that grows; other parts come last."""
    fields = {"text": "text", "reasoning": "thinking", "tool_call": "input"}
    parts = [part for part in message["parts"] if part["type"] in fields]
    return [part["data"][fields[part["type"]]] for part in parts]
