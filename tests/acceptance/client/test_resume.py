"""The stream of the client through cuts and kills: every word once, every event once."""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crushclient import NewText
from crushclient.stream import Protocol
from tests.acceptance.client.reading import WordPrinter, client_of
from tests.acceptance.crash.ground import PATIENT, QUICK
from tests.acceptance.harness.client import Client as Harness
from tests.acceptance.harness.shapes import Server
from tests.doubles.tcp_proxy import TcpProxy

Connect = Callable[[Server], Harness]
MakeProject = Callable[..., Path]
CUTS = 25
PROTOCOLS: tuple[Protocol, ...] = ("websocket", "sse")


@pytest.fixture
def proxy() -> Iterator[Callable[[Server], TcpProxy]]:
    proxies: list[TcpProxy] = []

    def make(server: Server) -> TcpProxy:
        proxies.append(TcpProxy("127.0.0.1", server.port))
        return proxies[-1]

    yield make
    for each in proxies:
        each.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_words_come_once_through_random_cuts(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    proxy: Callable[[Server], TcpProxy],
    protocol: Protocol,
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # shown when it fails
    chance = random.Random(seed)
    workspace = await connect(shared_server).workspace(project())
    await workspace.attach()
    session = await workspace.session()
    way = proxy(shared_server)
    printer = WordPrinter()
    async with (
        client_of(f"http://127.0.0.1:{way.port}") as client,
        client.stream(workspace.id, after=0, protocol=protocol) as stream,
    ):
        way.cut_answers_after(chance.randrange(500))
        text = "[[n=1800 d=8 reason=50 id=word-é-😀]]"
        await workspace.prompt(session, text, "run 0")
        async for item in stream:
            ends = len(printer.ends)
            printer.take(item)
            cut_again(way, printer, chance)
            # The machine decides how many cuts one reply can have.
            if len(printer.ends) > ends:
                if printer.losses >= 20:
                    break
                await workspace.prompt(session, text, f"run {len(printer.ends)}")
    assert printer.numbers[0] == 1
    assert printer.replaced == 0
    assert_shown(printer, await workspace.messages(session))


def cut_again(way: TcpProxy, printer: WordPrinter, chance: random.Random) -> None:
    """After each cut the next one: about half of them before the open message is here again."""
    # A cut before the stream opens is a failed attempt, and no loss that the reader counts.
    if way.is_armed or printer.losses >= CUTS:
        return
    shown = sum(len(text.encode()) for texts in printer.shown.values() for text in texts)
    way.cut_answers_after(chance.randrange(200 + 3 * shown // 2))


def assert_shown(printer: WordPrinter, messages: list[dict[str, Any]]) -> None:
    """The finished messages are those of the database."""
    replies = [message for message in messages if message["role"] == "assistant"]
    assert replies
    for message in replies:
        assert printer.finished[message["id"]]["parts"] == message["parts"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.server_env(**PATIENT, **QUICK)
async def test_a_kill_in_the_middle_of_a_word_loses_and_repeats_nothing(
    server: Server, connect: Connect, project: MakeProject, protocol: Protocol
) -> None:
    workspace = await connect(server).workspace(project())
    await workspace.attach()
    session = await workspace.session()
    printer = WordPrinter()
    async with (
        client_of(server.url) as client,
        client.stream(
            workspace.id,
            after=0,
            client_id=workspace.client_id,
            path=str(workspace.path),
            protocol=protocol,
        ) as stream,
    ):
        for number in range(2):
            await workspace.prompt(session, "[[n=150 d=10 id=word]]", f"run-{number}")
            words = 0
            async for item in stream:
                printer.take(item)
                words += isinstance(item, NewText)
                if words == 20:
                    break
            await asyncio.to_thread(server.kill9)
            await asyncio.to_thread(server.start)
            await printer.read_until(stream, lambda p, count=number + 1: len(p.ends) == count)
    assert printer.losses >= 2
    assert printer.numbers == list(range(1, len(printer.numbers) + 1))
    assert_shown(printer, await workspace.messages(session))
