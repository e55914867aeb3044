"""The native interface: words as short arrays over a WebSocket. Commands go by `/v1`."""

import asyncio
from collections.abc import Callable

import orjson

from tests.bench.watch import STAMP, Watch
from tests.bench.websocket import listen
from tests.bench.wires.crush_v1 import CrushV1


class CrushNative(CrushV1):
    """As its base, but subscribers read the native stream."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._sockets: list[asyncio.Transport] = []

    async def subscribe(self, watch: Watch, *, sampled: bool = True) -> None:
        await self.listen(_reader(watch))

    async def listen(
        self, receive: Callable[[bytes, float], None], after: int | None = None
    ) -> None:
        query = "" if after is None else f"?after={after}"
        path = f"/api/workspaces/{self.workspace_id}/stream{query}"
        self._sockets.append(await listen(self.http, path, receive))

    def close(self) -> None:
        for socket in self._sockets:
            socket.close()
        super().close()


def _reader(watch: Watch) -> Callable[[bytes, float], None]:
    sessions: dict[int, str] = {}  # by the number that deltas name their message with

    def receive(payload: bytes, at: float) -> None:
        watch.payload_bytes += len(payload)
        items = orjson.loads(payload)
        for item in items if isinstance(items, list) else [items]:
            if isinstance(item, list):
                session = sessions.get(item[0], "")
                watch.new_words(session, STAMP.findall(item[3].encode()), at)
            elif item.get("type") in ("message.started", "message.restarted"):
                sessions[item["number"]] = item["data"]["message"]["session_id"]
            elif item.get("type") == "run.finished":
                watch.run_ended(item["data"]["run"]["session_id"], at)

    return receive
