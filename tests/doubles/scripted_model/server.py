"""The model's endpoints, and what it does with each request."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from tests.doubles.scripted_model.anthropic import Anthropic
from tests.doubles.scripted_model.openai import OpenAI
from tests.doubles.scripted_model.outlet import Outlet
from tests.doubles.scripted_model.received import ReceivedRequest
from tests.doubles.scripted_model.script import TITLE, Json, Script

DIALECTS: dict[str, type[OpenAI] | type[Anthropic]] = {"openai": OpenAI, "anthropic": Anthropic}


@dataclass
class Gate:
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0


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
        received = ReceivedRequest(self.count, dialect, body)
        entry: Json = {
            "number": received.number,
            "text": received.last[:4000],
            "model": body.get("model"),
            "messages": len(body.get("messages", [])),
            "tools": len(body.get("tools") or ()),
            "title": received.title,
            "stream": bool(body.get("stream")),
            "dialect": dialect,
            "peer": str(request.transport and request.transport.get_extra_info("peername")),
            "time": time.time(),
            "ended": "running",
        }
        self.served.append(entry)
        self.bodies[received.number] = {"body": body, "headers": dict(request.headers)}
        while len(self.bodies) > 200:
            self.bodies.popitem(last=False)
        try:
            response, entry["ended"] = await self.perform(request, received)
        except ConnectionError:
            entry["ended"] = "aborted"
            return web.Response(status=499)
        except asyncio.CancelledError:
            entry["ended"] = "aborted"
            raise
        return response

    def failing(self, received: ReceivedRequest, script: Script) -> bool:
        """Whether this request fails as scripted: always, or only the first times."""
        if script.times is None:
            return True
        if script is TITLE:
            return False
        key = script.key or received.last
        self.seen[key] += 1
        return self.seen[key] <= script.times

    async def perform(
        self, request: web.Request, received: ReceivedRequest
    ) -> tuple[web.StreamResponse, str]:
        script = received.script()
        failing = self.failing(received, script)
        usage = script.usage or (10, script.words, 0)
        wire = DIALECTS[received.dialect](received, usage)
        if failing and script.status:
            error = wire.error(script.status, f"scripted status {script.status}")
            headers = {"Retry-After": script.retry_after} if script.retry_after else {}
            return web.json_response(error, status=script.status, headers=headers), "failed"
        if failing and script.overflow:
            return web.json_response(wire.overflow(), status=400), "failed"
        if failing and script.silent:
            await asyncio.Event().wait()
        finish = script.finish or "stop"
        if not received.body.get("stream"):
            text = b"".join(self.word_at(script, number) for number in range(script.words))
            return web.json_response(wire.whole(text.decode(), finish)), "done"
        outlet = Outlet(request)
        await outlet.open()
        if failing and script.hang:
            await asyncio.Event().wait()
        if script.hold is None:
            await self.wait_at_gate(script)
        if script.first:
            await asyncio.sleep(script.first)
        outlet.send(wire.start())
        if script.reason:
            for piece in wire.reasoning([b"think%d " % n for n in range(script.reason)]):
                outlet.send(piece)
        calls = received.calls_now(script)
        words = script.before if calls else script.words
        cut = script.cut if failing and not calls else None
        if not await self.send_words(outlet, wire, script, words, cut=cut, failing=failing):
            return outlet.cut(), "cut"
        for piece in wire.calls(calls):
            outlet.send(piece)
        outlet.send(wire.end("tool_calls" if calls else finish))
        return await outlet.finish(), "done"

    async def wait_at_gate(self, script: Script) -> None:
        if script.gate:
            gate = self.gate(script.gate)
            gate.waiting += 1
            try:
                await gate.opened.wait()
            finally:
                gate.waiting -= 1

    def word_at(self, script: Script, number: int) -> bytes:
        if script.stamp:
            return b"@%d " % (time.time_ns() // 1000)
        if script.tag:
            return b"%b-%d " % (script.tag.encode(), number)
        return b"word%d " % number

    async def send_words(
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
            if number == script.hold:
                await self.wait_at_gate(script)
                due = clock()
            if script.gap:
                due += script.gap
                wait = due - clock()
                await asyncio.sleep(max(wait, 0))
            elif number % 32 == 31:
                await asyncio.sleep(0)
                await outlet.drain()
            outlet.send(wire.word(self.word_at(script, number)))
        return cut != words
