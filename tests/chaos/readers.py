"""Readers that come and go: native ones fold what they read, those of `/v1` keep workspaces open."""

import asyncio
import random
import uuid
from collections.abc import Callable
from contextlib import suppress

import aiohttp

from tests.acceptance.folding import Broken, Fold
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.native import NativeReader, NativeSocket, NativeSse
from tests.acceptance.harness.stream import EventStream
from tests.chaos.findings import Findings
from tests.chaos.gateway import AWAY, TROUBLE, Gateway
from tests.chaos.places import Place

_CONNECT_SECONDS = 20.0
_PAUSE_SECONDS = 0.2
_CLOSE_SECONDS = 20.0


class NativeFollower:
    """One logical reader over any number of connections to all web processes."""

    def __init__(
        self,
        place: Place,
        transport: str,
        gateway: Gateway,
        findings: Findings,
        chance: random.Random,
        *,
        longest_seconds: float,
    ) -> None:
        self.fold = Fold()
        self.connections = 0
        self._place = place
        self._transport = transport
        self._gateway = gateway
        self._findings = findings
        self._chance = chance
        self._longest = longest_seconds

    async def follow(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            seconds = self._chance.uniform(0.1, self._longest)
            await self._read(seconds, lambda _: False)

    async def read_to(self, number: int, *, seconds: float) -> None:
        """Until this event is here and the stream is live."""
        try:
            async with asyncio.timeout(seconds):
                while self.fold.number < number:
                    await self._read(
                        seconds,
                        lambda r: r.type == "stream.opened" and r.body["data"]["number"] >= number,
                    )
        except TimeoutError:
            self._findings.violated(
                "reader", f"{self._name}: event {self.fold.number} of {number} after {seconds:g} s"
            )

    @property
    def _name(self) -> str:
        return f"{self._transport} reader of {self._place.path.name}"

    async def _read(self, seconds: float, until: Callable[..., bool]) -> None:
        reader = self._new_reader()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await reader.open()
        except UnexpectedStatus as error:
            await self._refused(error.status, str(error))
            return
        except aiohttp.WSServerHandshakeError as error:
            await self._refused(error.status, str(error))
            return
        except TROUBLE:
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        self.connections += 1
        with suppress(TimeoutError, AssertionError):  # it ends before; why is looked at below
            async with asyncio.timeout(seconds):
                await reader.wait_for(until, seconds)
        with suppress(*TROUBLE):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await reader.close(abort=self._chance.random() < 0.5)
        self._take(reader)

    def _new_reader(self) -> "NativeSse | NativeSocket":
        web = self._gateway.any_web()
        if self._transport == "ws":
            return NativeSocket(web, self._place.id, after=self.fold.number)
        by_header = self._chance.random() < 0.5
        return NativeSse(web, self._place.id, after=self.fold.number, by_header=by_header)

    async def _refused(self, status: int, text: str) -> None:
        if status not in AWAY:
            self._findings.violated("workspace closed" if status == 404 else "reader", text)
        await asyncio.sleep(_PAUSE_SECONDS)

    def _take(self, reader: NativeReader) -> None:
        if reader.ended is not None and reader.ended.startswith("unreadable"):
            self._findings.violated("reader", f"{self._name}: {reader.ended}")
        self.fold.returns()
        try:
            for item in reader.received:
                if item.type != "tool.output":  # it is never stored
                    self.fold.take(item.body)
        except Broken as error:
            self._findings.violated("fold", f"{self._name}: {error}")
            self.fold = Fold()


class AttachedClient:
    """A client of `/v1`, which keeps the workspace open. It returns as soon as it can."""

    def __init__(
        self,
        place: Place,
        web: int,
        gateway: Gateway,
        findings: Findings,
    ) -> None:
        self._texts: dict[str, str] = {}
        self._client_id = str(uuid.uuid4())
        self._place = place
        self._web = web  # at which it begins
        self._gateway = gateway
        self._findings = findings
        self._stream: EventStream | None = None

    async def attach(self) -> None:
        """Claims the workspace, and opens the stream."""
        body = {
            "path": str(self._place.path),
            "client_id": self._client_id,
            "yolo": not self._place.asks,
        }
        await self._gateway.call("POST", "/v1/workspaces", body)
        await self._open()

    async def follow(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                if self._stream is None:
                    await self._open()
                elif self._stream.ended is not None:
                    await self._close()
                    self._web += 1  # another one may be there
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            await self._close()

    async def _open(self) -> None:
        web = self._gateway.webs[self._web % len(self._gateway.webs)]
        stream = EventStream(web, f"{self._place.v1}/events", {"client_id": self._client_id})
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await stream.open()
        except UnexpectedStatus as error:
            if error.status not in AWAY:
                kind = "workspace closed" if error.status == 404 else "attached client"
                self._findings.violated(kind, str(error))
                await self._reopen()
        except TROUBLE:
            self._web += 1
        else:
            self._stream = stream

    async def _reopen(self) -> None:
        body = {"path": str(self._place.path), "client_id": self._client_id}
        await self._gateway.call("POST", "/v1/workspaces", body)

    async def _close(self) -> None:
        if self._stream is None:
            return
        stream, self._stream = self._stream, None
        await stream.close()
        if stream.ended is not None and stream.ended.startswith("unreadable"):
            self._findings.violated("attached client", stream.ended)
        if stream.comments:
            self._findings.violated("attached client", f"comments: {stream.comments[:3]}")
        self._collect(stream)

    def texts(self) -> dict[str, str]:
        """Of the finished messages that it was shown, by their id."""
        if self._stream is not None:
            self._collect(self._stream)
        return self._texts

    def _collect(self, stream: EventStream) -> None:
        for event in stream.of("message"):
            if event.finish is not None:
                self._texts[event.payload["id"]] = event.text
