"""A thousand subscribers of one run: each gets every word, in order, in bounded time and memory."""

import asyncio
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conversation import text_of
from tests.acceptance.folding import Fold
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.acceptance.rough_reader import TRANSPORTS, Connection, SseDecoder
from tests.bench.usage import usage

Json = dict[str, Any]
Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

READERS = 1_000
WORDS = 200
AT_ONCE = 50  # connections that are being opened
GROWTH_MB = 150  # of the server, with all readers
SECONDS = 120  # for everybody to get the end of a run that takes 2 s


class Subscriber:
    """One subscriber, which remembers no more than it needs to notice a loss."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.got_end_at = 0.0

    async def read_until(self, is_there: Callable[[], bool]) -> None:
        while not is_there():
            await self.read_some()

    async def read_some(self) -> None:
        items, size = await self._connection.read()
        assert size, "the stream ended"
        for item in items:
            self.take(item)

    def take(self, item: Any) -> None:
        raise NotImplementedError

    def text(self, message_id: str) -> str:
        raise NotImplementedError

    async def follow(self) -> None:
        await self.read_until(lambda: self.got_end_at > 0)

    def leave(self) -> None:
        self._connection.drop()


class NativeSubscriber(Subscriber):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.fold = Fold()  # refuses whatever is lost, repeated or out of order

    def take(self, item: Any) -> None:
        self.fold.take(item)
        if isinstance(item, dict) and item["type"] == "run.finished":
            self.got_end_at = time.monotonic()

    def text(self, message_id: str) -> str:
        return text_of(self.fold.messages[message_id])


class V1Subscriber(Subscriber):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._texts: dict[str, str] = {}
        self._kinds: list[str] = []

    def take(self, item: Any) -> None:
        payload = item["payload"]["payload"]
        if item["type"] == "message":
            before, text = self._texts.get(payload["id"], ""), text_of(payload)
            assert text.startswith(before), "a word was lost, or an older state came later"
            assert "run_complete" not in self._kinds, "a message came behind the end of its run"
            self._texts[payload["id"]] = text
        elif item["type"] == "run_complete":
            self.got_end_at = time.monotonic()
        self._kinds.append(item["type"])

    def text(self, message_id: str) -> str:
        return self._texts[message_id]


@pytest.mark.timeout(600)
async def test_a_thousand_subscribers_get_every_word_in_order(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    workspace = await connect(shared_server).workspace(project("crowded"))
    stream = await workspace.attach()
    session, gate = await workspace.session(), model.new_gate()
    before = usage(shared_server.pids(), memory=True).pss_mb
    places = asyncio.Semaphore(AT_ONCE)

    async def subscribe(number: int) -> Subscriber:
        kind = (*TRANSPORTS, "v1")[number % 3]
        async with places:
            if kind == "v1":
                path = f"/v1/workspaces/{workspace.id}/events?client_id={uuid.uuid4()}"
                v1 = V1Subscriber(await Connection.get(shared_server.port, path, SseDecoder()))
                await v1.read_some()  # the head of the response: from now on it misses nothing
                return v1
            native = NativeSubscriber(
                await Connection.open(shared_server.port, workspace.id, kind, after=0)
            )
            await native.read_until(lambda: native.fold.is_live)
            return native

    readers = await asyncio.gather(*(subscribe(number) for number in range(READERS)))
    await workspace.prompt(session, f"[[n={WORDS} d=10 hold=20 gate={gate}]]", "talks")
    following = [asyncio.create_task(reader.follow()) for reader in readers]
    await stream.words(session, 20)
    await asyncio.to_thread(model.open_gate, gate)
    async with asyncio.timeout(SECONDS):
        await stream.run_complete(session)
        ended_at = time.monotonic()
        await asyncio.gather(*following)
    after = usage(shared_server.pids(), memory=True).pss_mb
    latest = max(reader.got_end_at for reader in readers) - ended_at
    print(f"{latest * 1000:.0f} ms behind the first, {before} -> {after} MB")

    reply = (await workspace.messages(session))[-1]
    assert len(text_of(reply).split()) == WORDS
    wrong = [reader for reader in readers if reader.text(reply["id"]) != text_of(reply)]
    assert wrong == []
    assert before is not None
    assert after is not None
    assert after - before < GROWTH_MB
    for reader in readers:
        reader.leave()
