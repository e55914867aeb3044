"""AWS' event stream: binary messages in, the events of Anthropic's wire out.

The framing and its checksums are botocore's (the extra ``bedrock``), which is
imported with this module: the wire to Bedrock does so on first use.
"""

from __future__ import annotations

import binascii
from base64 import b64decode

from botocore.eventstream import (  # type: ignore[import-untyped]  # botocore is untyped
    EventStreamBuffer,
    EventStreamMessage,
    ParserError,
)

from agents.llm.errors import BrokenStream
from agents.llm.json_text import dump, parse_object, text_or_empty

MESSAGE_LIMIT = 4 * 1024 * 1024


class AwsEvents:
    """The data of each event that ended in a chunk. Raises ``BrokenStream``."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()
        self._waiting = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        self._waiting += len(chunk)
        self._buffer.add_data(chunk)
        events: list[bytes] = []
        try:
            for message in self._buffer:
                self._waiting -= int(message.prelude.total_length)
                if data := _data(message):
                    events.append(data)
        except ParserError:
            raise BrokenStream("The provider sent something that is not an event.") from None
        if self._waiting > MESSAGE_LIMIT:
            raise BrokenStream("The provider sent an event that is too large.")
        return events

    def finish(self) -> list[bytes]:
        return []  # half a message is none: the decoder says that the reply broke off


def _data(message: EventStreamMessage) -> bytes:
    payload = parse_object(bytes(message.payload)) or {}
    headers = message.headers
    if headers.get(":message-type") in ("exception", "error"):
        kind = headers.get(":exception-type") or headers.get(":error-code")
        said = payload.get("message") or payload.get("Message") or headers.get(":error-message")
        error = {"type": text_or_empty(kind), "message": text_or_empty(said)}
        return dump({"type": "error", "error": error})
    try:
        return b64decode(text_or_empty(payload.get("bytes")), validate=True)
    except (binascii.Error, ValueError):
        raise BrokenStream("The provider sent an event that arrived damaged.") from None
