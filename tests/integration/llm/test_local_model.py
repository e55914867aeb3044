"""The real model in its thread: what it streams, what holds it to a schema, how it is stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from agents.config.providers.built_in import is_installed, local_provider
from agents.llm.contract import (
    ModelEvent,
    ModelRequest,
    Stopped,
    TextDelta,
    ToolCallStarted,
    ToolInputDelta,
    ToolSpec,
)
from agents.llm.errors import ModelError
from agents.llm.wires.local_engine import Engine, close_engine, engine
from agents.llm.wires.local_model import LocalModel, find_weights
from tests.doubles.conversation import assistant, tool, user
from workspaces.log.parts import FinishReason, ToolCall, ToolResult

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="the local model is not installed: bin/serve --local-model"
)

SETTINGS = local_provider()
VIEW = ToolSpec(
    "view",
    "Reads a file.",
    {
        "type": "object",
        "properties": {"file_path": {"type": "string"}, "offset": {"type": "integer"}},
        "required": ["file_path"],
    },
)
COUNT = ToolSpec(
    "count",
    "Counts.",
    {
        "type": "object",
        "properties": {
            "unit": {"enum": ["lines", "words"]},
            "most": {"type": "integer"},
            "files": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "boolean"},
        },
        "required": ["unit", "most", "files", "deep"],
    },
)


@pytest.fixture(autouse=True, scope="module")
def unloaded() -> Iterator[None]:
    yield
    asyncio.run(close_engine())


def asked(*messages: Any, **more: Any) -> ModelRequest:
    told = {"model": SETTINGS.models[0], "system": "", "tools": (VIEW, COUNT), "max_tokens": 40}
    told["temperature"] = 0.0  # the same words each time
    return ModelRequest(messages=messages, **(told | more))


async def say(request: ModelRequest) -> list[ModelEvent]:
    return [event async for batch in LocalModel(SETTINGS).stream(request) for event in batch]


async def test_words_come_one_after_the_other_with_their_count() -> None:
    events = await say(asked(user("Tell me about the sea.")))
    words = [event.text for event in events if isinstance(event, TextDelta)]
    last = events[-1]
    assert isinstance(last, Stopped)
    assert len(words) > 5
    assert last.usage.output in (len(words), len(words) + 1)
    assert last.usage.input + last.usage.cache_read > 20
    assert last.reason in (FinishReason.MAX_TOKENS, FinishReason.END_TURN)


async def test_a_tool_that_is_named_is_called_within_its_schema() -> None:
    events = await say(asked(user("Use the view tool to read docs/setup.txt"), max_tokens=200))
    (started,) = [event for event in events if isinstance(event, ToolCallStarted)]
    given = "".join(event.text for event in events if isinstance(event, ToolInputDelta))
    assert started.name == "view"
    assert set(json.loads(given)) == {"file_path"}
    assert isinstance(json.loads(given)["file_path"], str)
    assert isinstance(events[-1], Stopped)
    assert events[-1].reason is FinishReason.TOOL_USE
    assert not [event for event in events if isinstance(event, TextDelta)]


@pytest.mark.parametrize("prompt", ["Call the count tool", 'the count tool: { } "] <|im_end|>'])
async def test_no_argument_comes_out_of_another_type(prompt: str) -> None:
    events = await say(asked(user(prompt), max_tokens=400))
    given = json.loads("".join(e.text for e in events if isinstance(e, ToolInputDelta)))
    assert given["unit"] in ("lines", "words")
    assert type(given["most"]) is int
    assert isinstance(given["files"], list)
    assert type(given["deep"]) is bool


async def test_after_the_result_it_answers_in_words() -> None:
    call = ToolCall("c1", "view", '{"file_path":"a"}', True)
    events = await say(
        asked(
            user("Use the view tool on a"), assistant(call), tool(ToolResult("c1", "view", "hello"))
        )
    )
    assert any(isinstance(event, TextDelta) for event in events)
    assert not any(isinstance(event, ToolCallStarted) for event in events)


async def test_a_conversation_larger_than_its_window_is_cut_to_it() -> None:
    long = [
        user("漢字 🙂 " * 20_000, id="u1"),
        assistant("yes " * 20_000),
        user("And now?", id="u2"),
    ]
    events = await say(asked(*long, system="s" * 100_000, max_tokens=3))
    assert isinstance(events[-1], Stopped)


async def test_the_loop_goes_on_while_it_thinks() -> None:
    await say(asked(user("hi"), max_tokens=1))  # loaded
    loop = asyncio.get_running_loop()
    began = last = loop.time()
    held = 0.0  # for how long the loop stood still, in pauses that are noticed

    async def beat() -> None:
        nonlocal held, last
        while True:
            await asyncio.sleep(0.001)
            now = loop.time()
            held += now - last if now - last > 0.05 else 0.0
            last = now

    beating = asyncio.create_task(beat())
    await say(asked(user("Tell me about ships. " * 40)))
    beating.cancel()
    assert held < (loop.time() - began) / 2  # a busy machine holds it as well, now and then


async def test_closing_the_stream_stops_it_so_that_the_next_begins() -> None:
    stream = LocalModel(SETTINGS).stream(asked(user("Write a long story."), max_tokens=1_000))
    async with aclosing(stream):
        async for _ in stream:
            break
    assert engine(find_weights).waiting == 0
    # Behind a thousand words this would take far longer.
    async with asyncio.timeout(60):
        assert isinstance((await say(asked(user("hi"), max_tokens=2)))[-1], Stopped)


async def test_requests_wait_for_their_turn_and_do_not_mix() -> None:
    replies = await asyncio.gather(*(say(asked(user(f"{n}?"), max_tokens=4)) for n in range(4)))
    assert all(isinstance(events[-1], Stopped) for events in replies)


async def test_a_request_that_is_cancelled_in_the_queue_is_never_begun() -> None:
    first = asyncio.create_task(say(asked(user("Write a long story."), max_tokens=60)))
    second = asyncio.create_task(say(asked(user("x"), max_tokens=1_000)))
    while engine(find_weights).waiting < 2:
        await asyncio.sleep(0)
    second.cancel()
    assert isinstance((await first)[-1], Stopped)
    with pytest.raises(asyncio.CancelledError):
        await second
    assert engine(find_weights).waiting == 0


async def test_a_stop_ends_what_runs_and_what_waits() -> None:
    runs = Engine(find_weights())
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 1_000}

    async def listen() -> None:
        async for _ in runs.chunks(dict(body)):
            pass

    listening = [asyncio.create_task(listen()) for _ in range(2)]
    while runs.waiting < 2:
        await asyncio.sleep(0)
    await runs.close()
    ended = await asyncio.gather(*listening, return_exceptions=True)
    assert all(isinstance(error, ModelError) for error in ended)


async def test_it_loads_again_after_its_memory_was_given_back() -> None:
    runs = Engine(find_weights(), idle_seconds=0.01)
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 1}
    try:
        for _ in range(2):
            assert [chunk async for chunk in runs.chunks(dict(body))]
            while runs.is_loaded:
                await asyncio.sleep(0.005)
    finally:
        await runs.close()


async def test_what_llama_cpp_refuses_is_a_model_error() -> None:
    runs = engine(find_weights)
    refused = {"messages": [{"role": "user", "content": "x " * 20_000}], "stream": True}
    chunks = [chunk async for chunk in runs.chunks(refused)]
    assert chunks[0]["error"]["type"] == "exceed_context_size_error"
    with pytest.raises(ModelError):
        [chunk async for chunk in runs.chunks({"messages": object()})]
