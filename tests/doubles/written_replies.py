"""A model server whose replies are written out beforehand, for pages that must look like real work.

Speaks chat completions, streams word by word, and knows nothing of the code under test.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the model sends for one request."""

    text: str = ""
    calls: Sequence[tuple[str, Json]] = ()
    reasoning: str = ""
    tokens: tuple[int, int] = (4_000, 300)
    status: int = 200
    # The stream stays open after the text.
    is_open: bool = False


@dataclass(frozen=True)
class Story:
    """A prompt's title and its replies: the first one, the one after its tool results, and so on."""

    title: str
    replies: Sequence[Reply]


class WrittenReplies:
    """An async context manager; `base_url` is the address for a provider."""

    def __init__(self, stories: Mapping[str, Story]) -> None:
        self._stories = stories
        self._runner: web.AppRunner | None = None
        self.base_url = ""

    async def __aenter__(self) -> WrittenReplies:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt, earlier = _newest(body["messages"])
        story = next((each for words, each in self._stories.items() if words in prompt), None)
        if story is None:
            return web.json_response({"error": {"message": f"no story for {prompt}"}}, status=400)
        reply = Reply(story.title)
        if body.get("tools"):
            reply = story.replies[min(earlier, len(story.replies) - 1)]
        if reply.status != 200:
            error = {"message": reply.text, "type": "invalid_request_error"}
            return web.json_response({"error": error}, status=reply.status)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for word in re.findall(r"\s*\S+\s*", reply.reasoning):
            await _send(answer, {"reasoning_content": word})
        for word in re.findall(r"\s*\S+\s*", reply.text):
            await _send(answer, {"content": word})
        if reply.is_open:
            await asyncio.Event().wait()
        for index, (name, arguments) in enumerate(reply.calls):
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": index, "id": f"call_{earlier}_{index}", "function": function}
            await _send(answer, {"tool_calls": [{**call, "type": "function"}]})
        await _send(answer, {}, "tool_calls" if reply.calls else "stop", reply.tokens)
        await answer.write(b"data: [DONE]\n\n")
        return answer


def _newest(messages: list[Json]) -> tuple[str, int]:
    """The last prompt, and how many replies there are after it."""
    prompt, replies = "", 0
    for message in messages:
        if message["role"] == "user":
            content = message["content"]
            parts = content if isinstance(content, list) else [{"text": content}]
            prompt, replies = " ".join(part.get("text", "") for part in parts), 0
        elif message["role"] == "assistant":
            replies += 1
    return prompt, replies


async def _send(
    answer: web.StreamResponse,
    delta: Json,
    finish: str | None = None,
    tokens: tuple[int, int] | None = None,
) -> None:
    chunk: Json = {
        "id": "reply",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if tokens is not None:
        chunk["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    await answer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
