"""Streams end when their reader loses the right to read."""

from workspaces.access import ANONYMOUS, OWNER, Caller, Identity
from workspaces.delivery.attachments import StreamRights


class Reader:
    """A reader with a credential that can end, and its stream."""

    def __init__(self) -> None:
        self.identity: Identity = OWNER
        self.closed = 0

    async def renew(self) -> Identity:
        return self.identity

    def close(self) -> None:
        self.closed += 1

    @property
    def caller(self) -> Caller:
        return Caller(self.identity, renew=self.renew)


async def test_a_stream_is_closed_once_its_reader_may_not_read() -> None:
    rights, reader = StreamRights(), Reader()
    rights.watch(reader.caller, "w", reader.close)
    await rights.check()
    assert reader.closed == 0
    reader.identity = ANONYMOUS
    await rights.check()
    assert reader.closed == 1


async def test_a_stream_that_was_still_being_opened_is_closed_later() -> None:
    rights, reader = StreamRights(), Reader()
    rights.watch(reader.caller, "w", reader.close)
    reader.identity = ANONYMOUS
    await rights.check()
    await rights.check()
    assert reader.closed == 2


async def test_an_ended_stream_is_left_alone() -> None:
    rights, reader = StreamRights(), Reader()
    stop = rights.watch(reader.caller, "w", reader.close)
    stop()
    stop()
    reader.identity = ANONYMOUS
    await rights.check()
    assert reader.closed == 0


async def test_who_cannot_lose_the_right_is_not_watched() -> None:
    rights, reader = StreamRights(), Reader()
    rights.watch(Caller(ANONYMOUS), "w", reader.close)()
    rights.watch(Caller(ANONYMOUS), "w", reader.close)
    await rights.check()
    assert reader.closed == 0
