"""opencode's interface, so that it can be measured beside this server in the same run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from tests.bench.http_client import HttpClient
from tests.bench.watch import STAMP, Watch


class Opencode:
    """One project; every subscriber sees all of its events."""

    def __init__(self, url: str) -> None:
        self.http = HttpClient(url)

    async def open(self, folder: Path) -> None:
        # The server was started in the folder; a first subscriber stays, as for the other wire.
        await self.http.stream("/event", lambda body, at: None)

    async def session(self) -> str:
        answer, _ = await self.http.call("POST", "/session", {})
        return str(answer["id"])

    async def prompt(self, session: str, text: str) -> float:
        body = {"parts": [{"type": "text", "text": text}]}
        _, seconds = await self.http.call("POST", f"/session/{session}/prompt_async", body)
        return seconds

    async def cancel(self, session: str) -> None:
        await self.http.call("POST", f"/session/{session}/abort", {})

    async def subscribe(self, watch: Watch, *, sampled: bool = True) -> None:
        await self.http.stream("/event", _reader(watch))

    async def warm(self, calls: int) -> None:
        await self.http.warm(calls)

    def close(self) -> None:
        self.http.close()


def _reader(watch: Watch) -> Callable[[bytes, float], None]:
    rest = b""
    cut: dict[str, str] = {}  # the beginning of a word whose end is still to come, by message

    def delta(properties: dict[str, Any], at: float) -> None:
        key = properties["messageID"]
        text = cut.get(key, "") + properties["delta"]
        end = text.rfind(" ") + 1
        cut[key] = text[end:]
        watch.new_words(properties["sessionID"], STAMP.findall(text[:end].encode()), at)

    def receive(body: bytes, at: float) -> None:
        nonlocal rest
        watch.payload_bytes += len(body)
        *lines, rest = (rest + body).split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            event = orjson.loads(line[5:])
            properties = event.get("properties", {})
            match event.get("type"):
                case "message.part.delta" if properties.get("field") == "text":
                    delta(properties, at)
                case "message.part.updated" if (part := properties["part"])["type"] == "text":
                    if part["text"].startswith("@"):
                        watch.snapshot(part["sessionID"], part["text"].encode(), at)
                case "session.idle":
                    watch.run_ended(properties["sessionID"], at)

    return receive
