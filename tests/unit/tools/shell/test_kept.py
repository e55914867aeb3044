"""What the file of a kept command has, and what a server orders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tools.shell.kept import DamagedRecord, HeadAndTail, KeepOrder
from agents.tools.shell.output import BoundedOutput

chunks = st.lists(st.binary(max_size=50))


@given(chunks, chunks, st.integers(2, 60), st.none() | st.integers(0, 255))
def test_output_continues_after_it_was_stored(
    before: list[bytes], after: list[bytes], limit: int, code: int | None
) -> None:
    whole, first, second = BoundedOutput(limit), BoundedOutput(limit), BoundedOutput(7)
    for chunk in before:
        first.feed(chunk)
    assert second.load(first.encode(code)) == code
    for chunk in after:
        second.feed(chunk)
    for chunk in [*before, *after]:
        whole.feed(chunk)
    assert second.text() == whole.text()
    assert second.total == whole.total


@given(chunks, st.integers(2, 60))
def test_the_stored_output_is_bounded(fed: list[bytes], limit: int) -> None:
    output = HeadAndTail(limit)
    for chunk in fed:
        output.feed(chunk)
    assert len(output.encode()) <= limit + 60


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\n",
        b"5 5 3 3 0 -\nab",  # cut off
        b"5 5 3 3 0 -\nabcd",  # too long
        b"5 5 2 3 0 -\nabc",  # less than what is there
        b"2 5 3 3 0 -\nabc",  # a head above its limit
        b"5 5 3 -3 6 -\nabc",
        b"9999999999 9999999999 3 3 0 -\nabc",
        b"5 5 3 3 0\nabc",
        b"5 5 3 3 0 x\nabc",
        b"a b c d e -\n",
        b"1" * 1000 + b"\n",
    ],
)
def test_stored_output_that_is_damaged_is_refused(stored: bytes) -> None:
    output = HeadAndTail(10)
    output.feed(b"kept")
    before = output.encode()
    with pytest.raises(DamagedRecord):
        output.load(stored)
    assert output.encode() == before


def test_an_order_arrives_as_it_was_sent() -> None:
    order = KeepOrder("token", "mark", 2.5)
    assert KeepOrder.decode(order.encode().strip()) == order
    for line in (b"k", b"ktoken mark", b"ktoken mark x", b"k\xff m 1"):
        with pytest.raises(DamagedRecord):
            KeepOrder.decode(line)
