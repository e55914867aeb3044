import asyncio
import random
from collections.abc import Iterator

import pytest

from agents.llm.read_batching import MANY, Gathering

SOON = 10.0


class Body:
    """As much of aiohttp's body as is read: what was fed, then an end or an error."""

    def __init__(self) -> None:
        self._fed = b""
        self._end: BaseException | None = None
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self.wakes = 0

    def feed(self, data: bytes) -> None:
        self._fed += data
        self._wake()

    def end(self, error: BaseException | None = None) -> None:
        self._ended, self._end = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def readany(self) -> bytes:
        while not self._fed and not self._ended:
            self.wakes += 1
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        taken, self._fed = self._fed, b""
        if not taken and self._end is not None:
            raise self._end
        return taken


class Patience:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.seconds


@pytest.fixture
def patience() -> Patience:
    return Patience(0.001)


@pytest.fixture
def gathering(patience: Patience) -> Iterator[Gathering]:
    gathering = Gathering(patience)
    gathering.streams = MANY
    yield gathering
    assert not gathering._waiting
    assert not gathering._listened


async def read(gathering: Gathering, body: Body) -> bytes:
    async with asyncio.timeout(SOON):
        return await gathering.read(body)


async def test_few_streams_are_read_as_their_bytes_come(
    gathering: Gathering, patience: Patience
) -> None:
    gathering.streams = MANY - 1
    body = Body()
    reading = asyncio.create_task(read(gathering, body))
    await asyncio.sleep(0)
    body.feed(b"a")

    assert await reading == b"a"
    assert patience.asked == 0


async def test_many_are_read_in_one_turn(gathering: Gathering, patience: Patience) -> None:
    patience.seconds = 0.05
    bodies = [Body() for _ in range(20)]
    readings = [asyncio.create_task(read(gathering, body)) for body in bodies]
    await asyncio.sleep(0)
    for number, body in enumerate(bodies):
        body.feed(b"%d," % number)
        body.feed(b"more")

    await asyncio.sleep(0)
    assert not any(reading.done() for reading in readings)
    assert await asyncio.gather(*readings) == [b"%d,more" % n for n in range(20)]
    assert patience.asked == 1


async def test_one_that_has_nothing_yet_waits_for_a_later_turn(gathering: Gathering) -> None:
    early, late = Body(), Body()
    waiting = asyncio.create_task(read(gathering, late))
    early.feed(b"early")
    assert await read(gathering, early) == b"early"
    assert not waiting.done()

    late.feed(b"late")
    assert await waiting == b"late"


async def test_nothing_is_looked_at_while_nothing_comes(
    gathering: Gathering, patience: Patience
) -> None:
    bodies = [Body() for _ in range(10)]
    readings = [asyncio.create_task(read(gathering, body)) for body in bodies]
    await asyncio.sleep(0.02)
    asked = patience.asked
    await asyncio.sleep(0.05)
    assert patience.asked == asked

    patience.seconds = 1_000 * SOON  # the first bytes after a silence wait for nothing
    bodies[3].feed(b"a")
    assert await readings[3] == b"a"
    for reading in readings:
        reading.cancel()
    await asyncio.gather(*readings, return_exceptions=True)


async def test_bytes_after_a_silence_come_to_everybody(gathering: Gathering) -> None:
    bodies = [Body() for _ in range(10)]
    readings = [asyncio.create_task(read(gathering, body)) for body in bodies]
    await asyncio.sleep(0.02)
    for body in bodies:
        body.feed(b"a")

    assert await asyncio.gather(*readings) == [b"a"] * 10


async def test_the_last_words_come_before_the_end_or_the_error(gathering: Gathering) -> None:
    cut, whole = Body(), Body()
    readings = [asyncio.create_task(read(gathering, body)) for body in (cut, whole)]
    await asyncio.sleep(0)
    cut.feed(b"last")
    cut.end(OSError("cut"))
    whole.feed(b"last")
    whole.end()

    assert await asyncio.gather(*readings) == [b"last", b"last"]
    assert await read(gathering, whole) == b""
    with pytest.raises(OSError, match="cut"):
        await read(gathering, cut)


async def test_an_error_without_words_comes_in_its_turn(gathering: Gathering) -> None:
    body = Body()
    reading = asyncio.create_task(read(gathering, body))
    await asyncio.sleep(0)
    body.end(TimeoutError())

    with pytest.raises(TimeoutError):
        await reading


async def test_a_reader_that_is_cancelled_leaves_the_others_alone(gathering: Gathering) -> None:
    gone, staying = Body(), Body()
    leaving = asyncio.create_task(read(gathering, gone))
    reading = asyncio.create_task(read(gathering, staying))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    gone.feed(b"unread")
    staying.feed(b"read")

    assert await reading == b"read"
    assert await read(gathering, gone) == b"unread"  # nothing was lost with the cancelled read


@pytest.mark.parametrize("seed", range(20))
async def test_every_byte_comes_once_and_in_order(gathering: Gathering, seed: int) -> None:
    chance = random.Random(seed)
    bodies = [Body() for _ in range(12)]
    said = [bytearray() for _ in bodies]

    async def read_all(body: Body) -> bytes:
        whole = b""
        while piece := await read(gathering, body):
            whole += piece
            gathering.streams = chance.choice([MANY - 1, MANY])
        return whole

    readings = [asyncio.create_task(read_all(body)) for body in bodies]
    for step in range(300):
        which = chance.randrange(len(bodies))
        bodies[which].feed(b"%d " % step)
        said[which] += b"%d " % step
        if chance.random() < 0.3:
            await asyncio.sleep(chance.choice([0, 0, 0.001]))
    for body in bodies:
        body.end()

    assert await asyncio.gather(*readings) == [bytes(text) for text in said]
