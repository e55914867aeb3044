"""The contract that both wires keep, against a model server over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.request import Request, urlopen

import pytest

from agents.config.settings import ProviderSettings
from agents.llm.assembly import ReplyAssembly
from agents.llm.connections import close_connections, draining
from agents.llm.contract import ModelEvent, ModelRequest, Restarted, Stopped, TextDelta, Usage
from agents.llm.errors import (
    BadRequest,
    BrokenStream,
    ContextExhausted,
    ModelError,
    Overloaded,
    RateLimited,
    Silent,
    UnknownModel,
    Unreachable,
    WrongKey,
)
from agents.llm.retries import stream_with_retries
from agents.llm.wires.anthropic import AnthropicWire
from agents.llm.wires.openai import OpenAIWire
from tests.doubles.conversation import MODEL, assistant, request, tool, user
from tests.integration.llm.conftest import Spoken
from workspaces.log.parts import (
    Binary,
    FinishReason,
    Parts,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

WIRES = {"openai-compat": OpenAIWire, "anthropic": AnthropicWire}
Speak = Callable[[bytes], Awaitable[Spoken]]


@pytest.fixture(params=sorted(WIRES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def settings(kind: str, url: str, **more: Any) -> ProviderSettings:
    base_url = url if url.endswith("/v1") else f"{url}/v1"
    return ProviderSettings("mine", "Mine", kind, base_url, **{"api_key": "sk-secret-1", **more})


def wire(kind: str, url: str, *, silence: float = 5.0, **more: Any) -> Any:
    return WIRES[kind](settings(kind, url, **more), idle_seconds=silence)


async def say(provider: Any, asked: ModelRequest) -> list[ModelEvent]:
    return [event async for batch in provider.stream(asked) for event in batch]


def parts_of(events: list[ModelEvent]) -> Parts:
    assembly = ReplyAssembly()
    for event in events:
        assembly.apply(event)
    return assembly.parts()


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def ask(url: str, path: str, method: str = "GET") -> Any:
    def go() -> Any:
        with urlopen(Request(url + path, method=method), timeout=60) as answer:
            return json.load(answer)

    return await asyncio.to_thread(go)


async def served(url: str, prompt: str) -> list[dict[str, Any]]:
    return [entry for entry in await ask(url, "/served") if entry["text"] == prompt]


async def test_a_reply_streams_word_by_word_with_its_usage(kind: str, scripted: str) -> None:
    events = await say(
        wire(kind, scripted), request(user("[[n=3 id=a]][[reason=2]][[usage=100,7,40]]"))
    )
    assert events[-1] == Stopped(FinishReason.END_TURN, Usage(100, 7, 40, 0))
    reasoning, text = parts_of(events)
    assert isinstance(reasoning, Reasoning)
    assert reasoning.thinking == "think0 think1 "
    assert bool(reasoning.signature) == (kind == "anthropic")
    assert text == Text("a-0 a-1 a-2 ")


async def test_parallel_calls_come_with_their_input(kind: str, scripted: str) -> None:
    prompt = '[[before=1 id=x]][[calls=bash {"command":"ls"} ;; view {"file_path":"a"}]]'
    events = await say(wire(kind, scripted), request(user(prompt)))
    text, first, second = parts_of(events)
    assert text == Text("x-0 ")
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert (first.name, first.input, first.finished) == ("bash", '{"command":"ls"}', True)
    assert (second.name, second.input) == ("view", '{"file_path":"a"}')
    assert first.id != second.id
    assert isinstance(events[-1], Stopped)
    assert events[-1].reason is FinishReason.TOOL_USE


async def test_the_conversation_goes_on_after_results(kind: str, scripted: str) -> None:
    prompt = '[[n=1 id=done]][[calls=bash {"command":"ls"} ;; view {}]]'
    provider = wire(kind, scripted)
    called = [
        p for p in parts_of(await say(provider, request(user(prompt)))) if isinstance(p, ToolCall)
    ]
    results = tool(*(ToolResult(call.id, call.name, "ok") for call in called))
    events = await say(provider, request(user(prompt), assistant(*called), results))
    assert text_of(events) == "done-0 "


async def test_broken_input_arrives_as_the_model_wrote_it(kind: str, scripted: str) -> None:
    (call,) = parts_of(await say(wire(kind, scripted), request(user("[[badargs]]"))))
    assert isinstance(call, ToolCall)
    assert call.input == '{"command": "ls'


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", FinishReason.MAX_TOKENS), ("content_filter", FinishReason.CONTENT_FILTER)],
)
async def test_the_finish_reason_is_understood(
    kind: str, scripted: str, finish: str, reason: FinishReason
) -> None:
    events = await say(wire(kind, scripted), request(user(f"[[n=1 finish={finish}]]")))
    assert isinstance(events[-1], Stopped)
    assert events[-1].reason is reason


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("status=401", WrongKey),
        ("status=404", UnknownModel),
        ("overflow", ContextExhausted),
        ("status=429", RateLimited),
        ("status=500", Overloaded),
        ("status=529", Overloaded),
        ("status=400", BadRequest),
    ],
)
async def test_a_refusal_has_its_error(
    kind: str, scripted: str, script: str, expected: type[ModelError]
) -> None:
    with pytest.raises(expected) as caught:
        await say(wire(kind, scripted), request(user(f"[[{script} retry_after=3]]")))
    assert "sk-secret" not in repr(caught.value)
    assert caught.value.retry_after == (None if script == "overflow" else 3.0)


async def test_a_connection_cut_in_the_middle_is_a_broken_stream(kind: str, scripted: str) -> None:
    events: list[ModelEvent] = []

    async def listen() -> None:
        async for batch in wire(kind, scripted).stream(request(user("[[n=9 cut=2 id=c]]"))):
            events.extend(batch)

    with pytest.raises(BrokenStream):
        await listen()
    assert text_of(events) == "c-0 c-1 "


@pytest.mark.parametrize("script", ["silent", "hang", "stall=2"])
async def test_silence_is_noticed_wherever_it_begins(kind: str, scripted: str, script: str) -> None:
    with pytest.raises(Silent, match=r"0\.2 s"):
        await say(wire(kind, scripted, silence=0.2), request(user(f"[[{script}]]")))


async def test_a_reply_that_is_slow_but_alive_is_not_silent(kind: str, scripted: str) -> None:
    events = await say(wire(kind, scripted, silence=1.0), request(user("[[n=15 d=100]]")))
    assert isinstance(events[-1], Stopped)


async def test_a_server_that_is_not_there_is_unreachable(kind: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unreachable, match="cannot be reached"):
            await say(wire(kind, url), request(user("x")))


async def test_retries_go_on_until_the_reply_is_whole(kind: str, scripted: str) -> None:
    for script in ("status=429 retry_after=1", "status=503", "cut=1"):
        prompt = f"[[n=2 id=r {script} times=2]] {kind}"
        slept: list[float] = []

        async def sleep(seconds: float, slept: list[float] = slept) -> None:
            slept.append(seconds)

        assembly, restarts = ReplyAssembly(), 0
        stream = stream_with_retries(
            wire(kind, scripted), request(user(prompt)), sleep=sleep, random=lambda: 0.0
        )
        async for batch in stream:
            for event in batch:
                restarts += isinstance(event, Restarted)
                assembly.apply(event)
        assert assembly.parts() == (Text("r-0 r-1 "),)
        assert restarts == 2
        wished = 1.0 if "retry_after" in script else 0.0
        assert slept == [wished + 0.25, wished + 0.5]
        assert len(await served(scripted, prompt)) == 3


async def wait_until_ended(url: str, prompt: str) -> str:
    async with asyncio.timeout(60):
        while True:
            entries = await served(url, prompt)
            if entries and entries[0]["ended"] != "running":
                return str(entries[0]["ended"])


async def test_closing_the_stream_closes_the_connection(kind: str, scripted: str) -> None:
    prompt = f"[[n=100000 d=5]] closing {kind}"
    stream = wire(kind, scripted).stream(request(user(prompt)))
    async for _ in stream:
        break
    await stream.aclose()
    assert await wait_until_ended(scripted, prompt) == "aborted"


@pytest.mark.parametrize("script", ["n=100000 d=5", "silent", "hang"])
async def test_cancelling_the_task_closes_the_connection(
    kind: str, scripted: str, script: str
) -> None:
    prompt = f"[[{script}]] cancelling {kind}"
    task = asyncio.ensure_future(say(wire(kind, scripted), request(user(prompt))))
    async with asyncio.timeout(60):
        while not await served(scripted, prompt):
            pass
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await wait_until_ended(scripted, prompt) == "aborted"


async def test_the_key_and_the_extra_headers_are_sent(kind: str, scripted: str) -> None:
    prompt = f"[[n=1]] headers {kind}"
    provider = wire(
        kind, scripted, extra_headers={"x-mine": "yes"}, extra_body={"metadata": {"a": "b"}}
    )
    await say(provider, request(user(prompt)))
    (entry,) = await served(scripted, prompt)
    sent = await ask(scripted, f"/served/{entry['number']}")
    headers = {name.lower(): value for name, value in sent["headers"].items()}
    if kind == "anthropic":
        assert headers["x-api-key"] == "sk-secret-1"
        assert headers["anthropic-version"] == "2023-06-01"
    else:
        assert headers["authorization"] == "Bearer sk-secret-1"
    assert headers["x-mine"] == "yes"
    assert sent["body"]["metadata"] == {"a": "b"}


async def test_a_large_conversation_goes_through(kind: str, scripted: str) -> None:
    picture = Binary("a.png", "image/png", b64encode(b"x" * 3_000_000).decode())
    events = await say(wire(kind, scripted), request(user("[[n=1 id=big]]", picture)))
    assert text_of(events) == "big-0 "


async def test_half_of_a_surrogate_pair_in_a_prompt_is_sent_as_something(
    kind: str, scripted: str
) -> None:
    events = await say(wire(kind, scripted), request(user("[[n=1 id=s]] \ud83d")))
    assert text_of(events) == "s-0 "


async def test_replies_at_the_same_time_do_not_mix(kind: str, scripted: str) -> None:
    provider = wire(kind, scripted)
    asked = [request(user(f"[[n=20 d=1 id=t{number}]]")) for number in range(20)]
    replies = await asyncio.gather(*(say(provider, one) for one in asked))
    for number, events in enumerate(replies):
        assert text_of(events) == "".join(f"t{number}-{word} " for word in range(20))


async def test_a_title_request_has_no_tools(kind: str, scripted: str) -> None:
    asked = request(user("[[status=500]]"), tools=(), model=replace(MODEL, id="small"))
    assert text_of(await say(wire(kind, scripted), asked)) == "word0 word1 word2 "


HEAD_KEPT = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", Unreachable),
        (b"garbage\r\n\r\n", Unreachable),
        (HEAD % b"text/event-stream", BrokenStream),
        (HEAD % b"text/event-stream" + b"data: {\n\n", BrokenStream),
        (HEAD % b"text/event-stream" + b"data: " + b"x" * 5_000_000, BrokenStream),
        (HEAD % b"text/event-stream" + b'data: {"error":{"code":429}}\n\n', ModelError),
        (HEAD % b"text/html" + b"<html>log in</html>", BadRequest),
        (HEAD % b"application/json" + b'{"choices":[]}', BadRequest),
        (HEAD % b"application/json" + b'{"error":"maximum context length"}', ContextExhausted),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", BadRequest),
        (b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\ncut", BrokenStream),
        (b"HTTP/1.1 200 OK\r\nContent-Type: \xff\r\nContent-Length: 0\r\n\r\n", BrokenStream),
    ],
)  # fmt: skip
async def test_hostile_answers_are_model_errors(
    kind: str, speaking: Speak, answer: bytes, expected: type[ModelError]
) -> None:
    spoken = await speaking(answer)
    with pytest.raises(expected):
        await say(wire(kind, spoken.url), request(user("x")))


@pytest.mark.parametrize(
    "bad", [{"api_key": "a\r\nb: c"}, {"extra_headers": {"a b": "b: c"}}, {"api_key": "b: c🙂"}]
)
def test_what_no_header_can_hold_is_refused_without_telling_it(
    kind: str, bad: dict[str, Any]
) -> None:
    with pytest.raises(BadRequest) as caught:
        wire(kind, "http://127.0.0.1:9", **bad)
    assert "b: c" not in repr(caught.value)


async def test_a_reply_whose_last_bytes_are_late_is_not_waited_for(kind: str) -> None:
    """Its connection is used again all the same."""
    asked: list[asyncio.StreamWriter] = []
    late = asyncio.Event()
    said = b"data: [DONE]\n\n" if kind != "anthropic" else b'data: {"type":"message_stop"}\n\n'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
                asked.append(writer)
                writer.write(HEAD_KEPT + b"%x\r\n%b\r\n" % (len(said), said))
                await late.wait()
                writer.write(b"0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        provider = wire(kind, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert len(await say(provider, request(user("x")))) == 1
        late.set()
        async with asyncio.timeout(60):
            while draining():
                await asyncio.sleep(0)
        await say(provider, request(user("y")))
        await close_connections()
    assert len(asked) == 2
    assert asked[0] is asked[1]


async def test_the_connection_is_kept_for_the_next_reply(kind: str, scripted: str) -> None:
    provider = wire(kind, scripted)
    peers = set()
    for number in range(3):
        prompt = f"[[n=2]] kept {kind} {number}"
        await say(provider, request(user(prompt)))
        (entry,) = await served(scripted, prompt)
        peers.add(entry["peer"])
    assert len(peers) == 1
