"""The model's words as messages with blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from tests.doubles.scripted_model.received import ReceivedRequest, halves
from tests.doubles.scripted_model.script import Call, Json


@dataclass
class Anthropic:
    received: ReceivedRequest
    usage: tuple[int, int, int]
    index: int = -1

    def __post_init__(self) -> None:
        self.delta = b""

    def _event(self, name: str, **data: Any) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps({"type": name, **data}))

    def _open(self, block: Json) -> bytes:
        self.index += 1
        return self._event("content_block_start", index=self.index, content_block=block)

    def _close(self) -> bytes:
        self.delta = b""
        return self._event("content_block_stop", index=self.index)

    def start(self) -> bytes:
        usage = {
            "input_tokens": self.usage[0],
            "cache_read_input_tokens": self.usage[2],
            "cache_creation_input_tokens": 0,
            "output_tokens": 1,
        }
        message = {
            "id": f"msg_{self.received.number}",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": self.received.body.get("model"),
            "stop_reason": None,
            "usage": usage,
        }
        return self._event("message_start", message=message) + self._event("ping")

    def word(self, word: bytes) -> bytes:
        opening = b""
        if not self.delta:
            opening = self._open({"type": "text", "text": ""})
            self.delta = (
                b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
                b'"delta":{"type":"text_delta","text":"' % self.index
            )
        return opening + self.delta + word + b'"}}\n\n'

    def reasoning(self, words: list[bytes]) -> Iterator[bytes]:
        yield self._open({"type": "thinking", "thinking": "", "signature": ""})
        for word in words:
            delta = {"type": "thinking_delta", "thinking": word.decode()}
            yield self._event("content_block_delta", index=self.index, delta=delta)
        delta = {"type": "signature_delta", "signature": f"sig-{self.received.number}"}
        yield self._event("content_block_delta", index=self.index, delta=delta)
        yield self._close()

    def calls(self, calls: tuple[Call, ...]) -> Iterator[bytes]:
        if self.delta:
            yield self._close()
        for index, (name, args) in enumerate(calls):
            call_id = f"toolu_{self.received.number}_{index}"
            yield self._open({"type": "tool_use", "id": call_id, "name": name, "input": {}})
            for piece in halves(args):
                delta = {"type": "input_json_delta", "partial_json": piece}
                yield self._event("content_block_delta", index=self.index, delta=delta)
            yield self._close()

    def end(self, finish: str) -> bytes:
        closing = self._close() if self.delta else b""
        delta = {"stop_reason": STOP_REASONS.get(finish, finish), "stop_sequence": None}
        usage = {"output_tokens": self.usage[1]}
        return (
            closing
            + self._event("message_delta", delta=delta, usage=usage)
            + self._event("message_stop")
        )

    def whole(self, text: str, finish: str) -> Json:
        return {
            "id": f"msg_{self.received.number}",
            "type": "message",
            "role": "assistant",
            "model": self.received.body.get("model"),
            "content": [{"type": "text", "text": text}],
            "stop_reason": STOP_REASONS.get(finish, finish),
            "usage": {"input_tokens": self.usage[0], "output_tokens": self.usage[1]},
        }

    def error(self, status: int, message: str, code: str = "") -> Json:
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        error = {"type": kind.get(status, "api_error"), "message": message}
        return {"type": "error", "error": error}

    def overflow(self) -> Json:
        return self.error(400, "prompt is too long: 208310 tokens > 200000 maximum")


STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
