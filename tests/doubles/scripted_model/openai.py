"""The model's words as chat completions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from tests.doubles.scripted_model.received import ReceivedRequest, halves
from tests.doubles.scripted_model.script import Call, Json


@dataclass
class OpenAI:
    received: ReceivedRequest
    usage: tuple[int, int, int]
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        model = orjson.dumps(str(self.received.body.get("model", "")))
        self.head = (
            b'data: {"id":"c%d","object":"chat.completion.chunk","created":%d,"model":%b,'
            % (self.received.number, int(time.time()), model)
        )
        self.delta = self.head + b'"choices":[{"index":0,"delta":{"content":"'
        self.thought = self.head + b'"choices":[{"index":0,"delta":{"reasoning_content":"'

    def _choice(self, delta: Json, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return self.head + b'"choices":%b}\n\n' % orjson.dumps(choices)

    def start(self) -> bytes:
        return self._choice({"role": "assistant", "content": ""})

    def word(self, word: bytes) -> bytes:
        return self.delta + word + b'"},"finish_reason":null}]}\n\n'

    def reasoning(self, words: list[bytes]) -> Iterator[bytes]:
        for word in words:
            yield self.thought + word + b'"},"finish_reason":null}]}\n\n'

    def calls(self, calls: tuple[Call, ...]) -> Iterator[bytes]:
        for index, (name, args) in enumerate(calls):
            call_id = f"call_{self.received.number}_{index}"
            function: Json = {"name": name, "arguments": ""}
            call = {"index": index, "id": call_id, "type": "function", "function": function}
            yield self._choice({"tool_calls": [call]})
            for piece in halves(args):
                call = {"index": index, "function": {"arguments": piece}}
                yield self._choice({"tool_calls": [call]})

    def end(self, finish: str) -> bytes:
        prompt, out, cached = self.usage
        usage = {
            "prompt_tokens": prompt + cached,
            "completion_tokens": out,
            "total_tokens": prompt + cached + out,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        last = self.head + b'"choices":[],"usage":%b}\n\n' % orjson.dumps(usage)
        return self._choice({}, finish) + last + b"data: [DONE]\n\n"

    def whole(self, text: str, finish: str) -> Json:
        return {
            "id": f"c{self.received.number}",
            "object": "chat.completion",
            "model": self.received.body.get("model"),
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": text},
                }
            ],
            "usage": {"prompt_tokens": self.usage[0], "completion_tokens": self.usage[1]},
        }

    def error(self, status: int, message: str, code: str = "") -> Json:
        return {"error": {"message": message, "type": "server_error", "code": code or None}}

    def overflow(self) -> Json:
        return self.error(
            400,
            "This model's maximum context length is 8192 tokens. However, your messages "
            "resulted in 9000 tokens. Please reduce the length of the messages.",
            "context_length_exceeded",
        )
