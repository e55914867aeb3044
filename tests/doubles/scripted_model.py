"""A model server that does what the last user message tells it to.

Run it as a program; it prints ``listening http://127.0.0.1:PORT``. It serves
``/v1/chat/completions`` and ``/v1/messages`` and knows nothing of the code under
test. Several commands may stand in one pair of brackets:

    [[n=200 d=5]]             200 words, 5 ms apart (default n=20 d=0)
    [[first=300]]             wait 300 ms before the first word
    [[tool=NAME {json}]]      call the tool first; after its result, reply
    [[tools=K NAME {json}]]   K rounds of that tool call before the reply
    [[calls=A {json} ;; B {json}]]  several calls in one reply, then reply
    [[loop=NAME {json}]]      call that tool for ever
    [[badargs]]               a tool call whose arguments are broken JSON, then reply
    [[before=K]]              K words before the tool call
    [[reason=K]]              K words of reasoning before everything else
    [[stamp]]                 each word is @<unix microseconds of its emission>
    [[id=tag]]                words are tag-0, tag-1, ...
    [[usage=in,out,cached]]   tokens told at the end (``in`` without the cached ones)
    [[finish=length]]         the finish reason, in OpenAI's words
    [[status=500]]            answer with that HTTP status; also retry_after=SECONDS
    [[overflow]]              the provider's error for an exhausted window
    [[cut=K]]                 drop the connection after K words
    [[stall=K]]               send nothing more after K words, stay open
    [[hang]]                  send headers and nothing more
    [[silent]]                send nothing at all
    [[times=K]]               only the first K requests with this text fail as told above
    [[key=NAME]]              with times: only the first K requests with this key fail
    [[gate=name]]             hold before the first word until POST /gate/name/open

``GET /gate/name`` says how many wait there. ``GET /served`` lists the requests,
``GET /served/N`` shows the body and headers of one of the last 200, ``DELETE
/served`` forgets all. A request without tools asks for a title: three words at once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import signal
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson
from aiohttp import web

Json = dict[str, Any]
Call = tuple[str, str]

CALL_BLOCK = re.compile(
    r"\[\[(?:(?P<loop>loop)|tools?)=(?:(?P<rounds>\d+) )?(?P<name>[\w.-]+) (?P<args>\{.*?\})\]\]",
    re.DOTALL,
)
CALLS_BLOCK = re.compile(r"\[\[calls=(.*?\})\s*\]\]", re.DOTALL)
BLOCK = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)


@dataclass(frozen=True)
class Script:
    words: int = 20
    gap: float = 0.0
    first: float = 0.0
    rounds: int = 0  # of ``calls``; -1 is for ever
    calls: tuple[Call, ...] = ()
    before: int = 0
    reason: int = 0
    stamp: bool = False
    tag: str = ""
    usage: tuple[int, int, int] | None = None
    finish: str = ""
    gate: str = ""
    times: int | None = None
    key: str = ""
    status: int = 0
    retry_after: str = ""
    overflow: bool = False
    cut: int | None = None
    stall: int | None = None
    hang: bool = False
    silent: bool = False


TITLE = Script(words=3)


@lru_cache(maxsize=4096)
def parse_script(text: str) -> Script:
    calls: tuple[Call, ...] = ()
    rounds = 0
    if match := CALL_BLOCK.search(text):
        calls = ((match["name"], match["args"]),)
        rounds = -1 if match["loop"] else int(match["rounds"] or 1)
    elif match := CALLS_BLOCK.search(text):
        pairs = [item.strip().partition(" ") for item in match[1].split(";;")]
        calls, rounds = tuple((name, args.strip()) for name, _, args in pairs), 1
    rest = CALLS_BLOCK.sub("", CALL_BLOCK.sub("", text))
    said: dict[str, str] = {}
    for block in BLOCK.findall(rest):
        for item in block.split():
            name, _, value = item.partition("=")
            said[name] = value
    if "badargs" in said:
        calls, rounds = (("bash", '{"command": "ls'),), 1

    def number(name: str, default: int = 0) -> int:
        return int(said[name]) if said.get(name, "").isdigit() else default

    usage = tuple(int(item) for item in said["usage"].split(",")) if "usage" in said else None
    return Script(
        words=number("n", 20),
        gap=number("d") / 1000,
        first=number("first") / 1000,
        rounds=rounds,
        calls=calls,
        before=number("before"),
        reason=number("reason"),
        stamp="stamp" in said,
        tag=said.get("id", ""),
        usage=(*usage, 0, 0, 0)[:3] if usage else None,  # type: ignore[arg-type]
        finish=said.get("finish", ""),
        gate=said.get("gate", ""),
        times=number("times") if "times" in said else None,
        key=said.get("key", ""),
        status=number("status"),
        retry_after=said.get("retry_after", ""),
        overflow="overflow" in said,
        cut=number("cut") if "cut" in said else None,
        stall=number("stall") if "stall" in said else None,
        hang="hang" in said,
        silent="silent" in said,
    )


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            item["text"] for item in content if isinstance(item, dict) and item.get("text")
        )
    return ""


def results_in(message: Json) -> int:
    if message.get("role") == "tool":
        return 1
    content = message.get("content")
    if not isinstance(content, list):
        return 0
    return sum(1 for item in content if item.get("type") == "tool_result")


@dataclass
class Asked:
    """One request, whatever its dialect."""

    number: int
    dialect: str
    body: Json
    last: str = ""
    results: int = 0  # tool results after the last user text

    def __post_init__(self) -> None:
        for message in self.body.get("messages", []):
            text = text_of(message.get("content")) if message.get("role") == "user" else ""
            if text:
                self.last, self.results = text, 0
            else:
                self.results += results_in(message)

    @property
    def title(self) -> bool:
        return not self.body.get("tools")

    def script(self) -> Script:
        return TITLE if self.title else parse_script(self.last)

    def calls_now(self, script: Script) -> tuple[Call, ...]:
        if script.rounds == -1 or self.results < script.rounds * len(script.calls):
            return script.calls
        return ()


@dataclass
class OpenAI:
    asked: Asked
    usage: tuple[int, int, int]
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        model = orjson.dumps(str(self.asked.body.get("model", "")))
        self.head = (
            b'data: {"id":"c%d","object":"chat.completion.chunk","created":%d,"model":%b,'
            % (self.asked.number, int(time.time()), model)
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
            call_id = f"call_{self.asked.number}_{index}"
            function: Json = {"name": name, "arguments": ""}
            call = {"index": index, "id": call_id, "type": "function", "function": function}
            yield self._choice({"tool_calls": [call]})
            for piece in halves(args):
                call = {"index": index, "function": {"arguments": piece}}
                yield self._choice({"tool_calls": [call]})

    def end(self, finish: str) -> bytes:
        asked, out, cached = self.usage
        usage = {
            "prompt_tokens": asked + cached,
            "completion_tokens": out,
            "total_tokens": asked + cached + out,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        last = self.head + b'"choices":[],"usage":%b}\n\n' % orjson.dumps(usage)
        return self._choice({}, finish) + last + b"data: [DONE]\n\n"

    def whole(self, text: str, finish: str) -> Json:
        return {
            "id": f"c{self.asked.number}",
            "object": "chat.completion",
            "model": self.asked.body.get("model"),
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


@dataclass
class Anthropic:
    asked: Asked
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
            "id": f"msg_{self.asked.number}",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": self.asked.body.get("model"),
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
        delta = {"type": "signature_delta", "signature": f"sig-{self.asked.number}"}
        yield self._event("content_block_delta", index=self.index, delta=delta)
        yield self._close()

    def calls(self, calls: tuple[Call, ...]) -> Iterator[bytes]:
        if self.delta:
            yield self._close()
        for index, (name, args) in enumerate(calls):
            call_id = f"toolu_{self.asked.number}_{index}"
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
            "id": f"msg_{self.asked.number}",
            "type": "message",
            "role": "assistant",
            "model": self.asked.body.get("model"),
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
DIALECTS: dict[str, type[OpenAI] | type[Anthropic]] = {"openai": OpenAI, "anthropic": Anthropic}


def halves(args: str) -> tuple[str, str]:
    middle = len(args) // 2
    return args[:middle], args[middle:]


@dataclass
class Gate:
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0


class Outlet:
    """Writes chunks straight to the socket: the body's framing is all that is needed."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})

    async def open(self) -> None:
        self._response.enable_chunked_encoding()
        await self._response.prepare(self._request)
        await self._response.write(b": hello\n\n")  # makes aiohttp send the headers now
        assert self._request.transport is not None
        self._transport = self._request.transport

    def send(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def drain(self) -> None:
        while self._transport.get_write_buffer_size() > 1_000_000:
            await asyncio.sleep(0.005)

    def cut(self) -> web.StreamResponse:
        """Ends the connection in the middle of the body; what was sent still arrives."""
        self._transport.close()
        return web.Response(status=499)

    async def finish(self) -> web.StreamResponse:
        await self._response.write_eof()
        return self._response


class ScriptedModel:
    def __init__(self) -> None:
        self.count = 0
        self.served: deque[Json] = deque(maxlen=50_000)
        self.bodies: OrderedDict[int, Json] = OrderedDict()
        self.seen: Counter[str] = Counter()
        self.gates: dict[str, Gate] = {}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/messages", self.messages)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/served", self.show_served)
        app.router.add_delete("/served", self.forget_served)
        app.router.add_get("/served/{number}", self.show_body)
        app.router.add_get("/gate/{name}", self.show_gate)
        app.router.add_post("/gate/{name}/{what:open|close}", self.move_gate)
        return app

    async def models(self, request: web.Request) -> web.Response:
        data = [{"id": name, "object": "model"} for name in ("fake-large", "fake-small")]
        return web.json_response({"object": "list", "data": data})

    async def show_served(self, request: web.Request) -> web.Response:
        body = orjson.dumps(list(self.served))
        return web.Response(body=body, content_type="application/json")

    async def forget_served(self, request: web.Request) -> web.Response:
        self.served.clear()
        self.bodies.clear()
        self.seen.clear()
        return web.json_response({})

    async def show_body(self, request: web.Request) -> web.Response:
        kept = self.bodies.get(int(request.match_info["number"]))
        return web.json_response(kept) if kept else web.json_response({}, status=404)

    def gate(self, name: str) -> Gate:
        return self.gates.setdefault(name, Gate())

    async def show_gate(self, request: web.Request) -> web.Response:
        gate = self.gate(request.match_info["name"])
        return web.json_response({"open": gate.opened.is_set(), "waiting": gate.waiting})

    async def move_gate(self, request: web.Request) -> web.Response:
        gate = self.gate(request.match_info["name"])
        if request.match_info["what"] == "open":
            gate.opened.set()
        else:
            gate.opened.clear()
        return await self.show_gate(request)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self.answer(request, "openai")

    async def messages(self, request: web.Request) -> web.StreamResponse:
        return await self.answer(request, "anthropic")

    async def answer(self, request: web.Request, dialect: str) -> web.StreamResponse:
        try:
            body = orjson.loads(await request.read())
        except orjson.JSONDecodeError:
            return web.json_response({"error": {"message": "bad json"}}, status=400)
        self.count += 1
        asked = Asked(self.count, dialect, body)
        entry: Json = {
            "number": asked.number,
            "text": asked.last[:4000],
            "model": body.get("model"),
            "messages": len(body.get("messages", [])),
            "tools": len(body.get("tools") or ()),
            "title": asked.title,
            "stream": bool(body.get("stream")),
            "dialect": dialect,
            "peer": str(request.transport and request.transport.get_extra_info("peername")),
            "time": time.time(),
            "ended": "running",
        }
        self.served.append(entry)
        self.bodies[asked.number] = {"body": body, "headers": dict(request.headers)}
        while len(self.bodies) > 200:
            self.bodies.popitem(last=False)
        try:
            response, entry["ended"] = await self.perform(request, asked)
        except ConnectionError:
            entry["ended"] = "aborted"
            return web.Response(status=499)
        except asyncio.CancelledError:
            entry["ended"] = "aborted"
            raise
        return response

    def failing(self, asked: Asked, script: Script) -> bool:
        """Whether this request fails as scripted: always, or only the first times."""
        if script.times is None:
            return True
        if script is TITLE:
            return False
        key = script.key or asked.last
        self.seen[key] += 1
        return self.seen[key] <= script.times

    async def perform(self, request: web.Request, asked: Asked) -> tuple[web.StreamResponse, str]:
        script = asked.script()
        failing = self.failing(asked, script)
        usage = script.usage or (10, script.words, 0)
        wire = DIALECTS[asked.dialect](asked, usage)
        if failing and script.status:
            error = wire.error(script.status, f"scripted status {script.status}")
            headers = {"Retry-After": script.retry_after} if script.retry_after else {}
            return web.json_response(error, status=script.status, headers=headers), "failed"
        if failing and script.overflow:
            return web.json_response(wire.overflow(), status=400), "failed"
        if failing and script.silent:
            await asyncio.Event().wait()
        finish = script.finish or "stop"
        if not asked.body.get("stream"):
            text = b"".join(self.spoken(script, number) for number in range(script.words))
            return web.json_response(wire.whole(text.decode(), finish)), "done"
        outlet = Outlet(request)
        await outlet.open()
        if failing and script.hang:
            await asyncio.Event().wait()
        await self.hold(script)
        outlet.send(wire.start())
        if script.reason:
            for piece in wire.reasoning([b"think%d " % n for n in range(script.reason)]):
                outlet.send(piece)
        calls = asked.calls_now(script)
        words = script.before if calls else script.words
        cut = script.cut if failing and not calls else None
        if not await self.speak(outlet, wire, script, words, cut=cut, failing=failing):
            return outlet.cut(), "cut"
        for piece in wire.calls(calls):
            outlet.send(piece)
        outlet.send(wire.end("tool_calls" if calls else finish))
        return await outlet.finish(), "done"

    async def hold(self, script: Script) -> None:
        if script.gate:
            gate = self.gate(script.gate)
            gate.waiting += 1
            try:
                await gate.opened.wait()
            finally:
                gate.waiting -= 1
        if script.first:
            await asyncio.sleep(script.first)

    def spoken(self, script: Script, number: int) -> bytes:
        if script.stamp:
            return b"@%d " % (time.time_ns() // 1000)
        if script.tag:
            return b"%b-%d " % (script.tag.encode(), number)
        return b"word%d " % number

    async def speak(
        self,
        outlet: Outlet,
        wire: OpenAI | Anthropic,
        script: Script,
        words: int,
        *,
        cut: int | None,
        failing: bool,
    ) -> bool:
        """False if the connection is to be cut."""
        stall = script.stall if failing else None
        clock = asyncio.get_running_loop().time
        due = clock()
        for number in range(words):
            if number == cut:
                return False
            if number == stall:
                await asyncio.Event().wait()
            if script.gap:
                due += script.gap
                wait = due - clock()
                await asyncio.sleep(max(wait, 0))
            elif number % 32 == 31:
                await asyncio.sleep(0)
                await outlet.drain()
            outlet.send(wire.word(self.spoken(script, number)))
        return cut != words


async def serve(host: str, port: int) -> None:
    runner = web.AppRunner(
        ScriptedModel().app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
    )
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=1024)
    await site.start()
    print(f"listening http://{host}:{runner.addresses[0][1]}", flush=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted model server.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    asyncio.run(serve(options.host, options.port))


if __name__ == "__main__":
    main()
